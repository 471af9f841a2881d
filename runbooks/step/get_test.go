package step_test

import (
	"testing"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

func TestGet(t *testing.T) {
	ready := with(widget("a", "example.com/f"), []any{
		map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Synced", "status": "False"},
	}, "status", "conditions")
	secret := steptest.Object("v1", "Secret", "demo", "s", map[string]any{"data": map[string]any{"token": "Y2FuYXJ5"}})
	secret.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "canary", "a.b/c": "kept"})
	for _, tt := range []struct {
		name, verb string
		value      any // func to check, or a plain value
		said       string
		table      *step.Table
		err        string
	}{
		{name: "list", verb: "get: {resource: widgets.example.com, namespace: demo}", said: "2 found"},
		{name: "list of several", verb: "get: {resource: [widgets.example.com, secrets], namespace: demo}", said: "3 found"},
		{name: "empty list", verb: "get: {resource: widgets.example.com, namespace: demo, selector: app=none}", said: "0 found"},
		{name: "everywhere", verb: "get: {resource: widgets.example.com, allNamespaces: true}", said: "2 found"},
		{name: "missing", verb: "get: {resource: widgets.example.com, namespace: demo, name: none}", err: "get widgets.example.com none in demo: there is no such object"},
		{name: "optional", verb: "get: {resource: widgets.example.com, namespace: demo, name: none, optional: true}", said: "not there"},
		{name: "not served", verb: "get: {resource: things.example.com, namespace: demo}", err: "things.example.com"},
		{name: "not served but fine", verb: "get: {resource: [things.example.com, widgets.example.com], namespace: demo, ifServed: true}", said: "2 found"},
		{name: "no namespace", verb: "get: {resource: widgets.example.com}", err: "live in namespaces"},
		{name: "a namespace too many", verb: "get: {resource: namespaces, namespace: demo}", err: "cluster-scoped"},
		{
			name: "columns", said: "found",
			verb: `get:
  resource: widgets.example.com
  namespace: demo
  name: a
  columns:
  - {head: name, path: .metadata.name}
  - {head: ready, path: '.status.conditions[?(@.type=="Ready")].status'}
  - {head: types, path: '.status.conditions[*].type'}
  - {head: second, path: '.status.conditions[-1].status'}
  - {head: app, path: ".metadata.labels['app']"}
  - {head: finalizers, path: .metadata.finalizers}
  - {head: none, path: .spec.none.at.all}`,
			table: &step.Table{
				Head: []string{"NAME", "READY", "TYPES", "SECOND", "APP", "FINALIZERS", "NONE"},
				Rows: [][]string{{"a", "True", "Ready,Synced", "False", "web", "[example.com/f]", "<none>"}},
			},
		},
		{
			name: "secret", said: "found",
			verb: `get:
  resource: secrets
  namespace: demo
  name: s
  columns: [{head: token, path: .data.token}, {head: data, path: .data}, {head: annotations, path: .metadata.annotations}, {head: one, path: '.metadata.annotations.a\.b/c'}]`,
			table: &step.Table{Head: []string{"TOKEN", "DATA", "ANNOTATIONS", "ONE"}, Rows: [][]string{{"(masked)", `{"token":"(masked)"}`, `{"a.b/c":"kept"}`, "kept"}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, ready, widget("b"), secret)
			a := action(t, tt.verb)
			res, err := run(t.Context(), t, c, a, &host{})
			if tt.err != "" {
				contains(t, err, tt.err)
				return
			}
			if err != nil || res.Said != tt.said {
				t.Fatalf("got %v, %v; want %q", res, err, tt.said)
			}
			if tt.table != nil {
				diff(t, "table", tt.table, res.Table)
			}
			p, err := preview(t, c, a)
			if err != nil || !p.Known {
				t.Fatalf("preview %v, %v", p, err)
			}
			diff(t, "previewed value", res.Value, p.Value)
		})
	}
}

func TestGetSelect(t *testing.T) {
	for _, tt := range []struct{ verb, path, want string }{
		{"get: {resource: nodes, name: n}", "{.status.role}", "kubectl get nodes n -o 'jsonpath={.status.role}'"},
		{"get: {resource: nodes, name: n, optional: true}", "{.x}", "kubectl get nodes n -o 'jsonpath={.x}' --ignore-not-found"},
		{"get: {resource: nodes}", "{[0].metadata.name}", "kubectl get nodes -o 'jsonpath={range .items[*]}{@.metadata.name}{\"\\n\"}{end}' | head -n 1"},
		{"get: {resource: nodes}", "{[2].spec.taints[0].key}", "kubectl get nodes -o 'jsonpath={range .items[*]}{@.spec.taints[0].key}{\"\\n\"}{end}' | sed -n 3p"},
		{"get: {resource: nodes}", "{[0]}", "kubectl get nodes -o 'jsonpath={range .items[*]}{@}{\"\\n\"}{end}' | head -n 1"},
		{"get: {resource: nodes}", "{$}", "kubectl get nodes -o 'jsonpath={.items}'"},
	} {
		line := action(t, tt.verb).(step.Selecter).Select(tt.path)
		diff(t, tt.verb, tt.want, step.Shell([]step.Line{line}, ""))
	}
}

func TestTargetProblems(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"{resource: pods, namespace: a, name: b}", ""},
		{"{resource: Pods}", `"Pods" is no resource`},
		{"{resource: pods, namespace: a, allNamespaces: true}", "exclude each other"},
		{"{resource: pods, allNamespaces: true, name: b}", "a name needs one namespace"},
		{"{resource: pods, namespace: a, name: b, selector: c=d}", "exclude each other"},
		{"{resource: [pods, nodes], name: b}", "a name needs one resource"},
		{"{resource: pods, namespace: a, name: --all}", "cannot be the name"},
		{"{resource: pods, namespace: a/b, name: c}", "cannot be a namespace"},
		{"{resource: clusterroles.rbac.authorization.k8s.io, name: 'system:node'}", ""},
		{"{resource: pods, namespace: a, optional: true}", "optional is about a named object"},
		{"{resource: nodes, columns: [{head: a, path: status}]}", "cannot read it"},
		{"{resource: nodes, columns: [{head: 'a,b', path: .a}]}", "a comma"},
	} {
		got := problems("get: " + tt.args)
		if tt.want == "" && got != "" || !contained(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
