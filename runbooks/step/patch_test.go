package step_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step/steptest"
)

func deployment() *unstructured.Unstructured {
	return steptest.Object("apps/v1", "Deployment", "demo", "web", map[string]any{"spec": map[string]any{
		"replicas": 1, "template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "app", "image": "one"}, map[string]any{"name": "proxy", "image": "one"},
		}}},
	}})
}

func TestPatch(t *testing.T) {
	const one = "patch: {resource: widgets.example.com, namespace: demo, name: a, "
	for _, tt := range []struct {
		name, verb string
		inputs     []string
		changes    []string
		said       string
		value      map[string]any
		spec       any // of widget a afterwards, if something is done
		err        string
	}{
		{name: "merge", verb: one + "patch: {spec: {size: 2}}}", changes: []string{"update demo/widgets.example.com/a"}, said: "1 changed",
			value: map[string]any{"changed": []any{"demo/widgets.example.com/a"}, "unchanged": []any{}}, spec: map[string]any{"size": int64(2)}},
		{name: "no change", verb: one + "patch: {spec: {size: 1}}}", said: "no change",
			value: map[string]any{"changed": []any{}, "unchanged": []any{"demo/widgets.example.com/a"}}, spec: map[string]any{"size": int64(1)}},
		{name: "json", verb: one + "type: json, patch: [{op: test, path: /spec/size, value: 1}, {op: add, path: /spec/color, value: '${inputs.name}'}]}", inputs: []string{"name=<red>"},
			changes: []string{"update demo/widgets.example.com/a"}, said: "1 changed",
			value: map[string]any{"changed": []any{"demo/widgets.example.com/a"}, "unchanged": []any{}}, spec: map[string]any{"size": int64(1), "color": "<red>"}},
		{name: "json whose test fails", verb: one + "type: json, patch: [{op: test, path: /spec/size, value: 7}, {op: replace, path: /spec/size, value: 8}]}",
			err: "an operation does not fit the object as it is"},
		{name: "selected", verb: "patch: {resource: widgets.example.com, namespace: demo, selector: app=web, patch: {spec: {size: 1, color: red}}}",
			changes: []string{"update demo/widgets.example.com/a", "update demo/widgets.example.com/b"}, said: "2 changed",
			value: map[string]any{"changed": []any{"demo/widgets.example.com/a", "demo/widgets.example.com/b"}, "unchanged": []any{}},
			spec:  map[string]any{"size": int64(1), "color": "red"}},
		{name: "nothing selected", verb: "patch: {resource: widgets.example.com, namespace: demo, selector: app=none, patch: {spec: {size: 2}}}", said: "no change",
			value: map[string]any{"changed": []any{}, "unchanged": []any{}}, spec: map[string]any{"size": int64(1)}},
		{name: "missing", verb: "patch: {resource: widgets.example.com, namespace: demo, name: none, patch: {spec: {size: 2}}}",
			err: "patch widgets.example.com none in demo: there is no such object"},
		{name: "optional", verb: "patch: {resource: widgets.example.com, namespace: demo, name: none, optional: true, patch: {spec: {size: 2}}}", said: "no change",
			value: map[string]any{"changed": []any{}, "unchanged": []any{}}, spec: map[string]any{"size": int64(1)}},
		{name: "strategic on a custom resource", verb: one + "type: strategic, patch: {spec: {size: 2}}}", err: "unknown format"},
	} {
		c := newCluster(t, widget("a"), widget("b"))
		p, err := preview(t, c, action(t, tt.verb, tt.inputs...))
		if tt.err != "" {
			contains(t, err, tt.err)
			_, err = run(t.Context(), t, c, action(t, tt.verb, tt.inputs...), &host{})
			contains(t, err, tt.err)
			continue
		}
		if err != nil {
			t.Errorf("%s: preview: %v", tt.name, err)
			continue
		}
		diff(t, tt.name+": preview", tt.changes, changes(p))
		if p.Idle != (len(tt.changes) == 0) {
			t.Errorf("%s: idle %v with %d changes", tt.name, p.Idle, len(tt.changes))
		}
		res, err := run(t.Context(), t, c, action(t, tt.verb, tt.inputs...), &host{})
		if err != nil || res.Said != tt.said {
			t.Errorf("%s: got %+v, %v; want %q", tt.name, res, err, tt.said)
			continue
		}
		diff(t, tt.name, any(tt.value), res.Value)
		diff(t, tt.name+": spec", tt.spec, c.Object(ref(widgets, "a")).Object["spec"])
	}
}

func TestPatchStrategicMergesByName(t *testing.T) {
	c := newCluster(t, deployment())
	verb := "patch: {resource: deployments.apps, namespace: demo, name: web, type: strategic, patch: {spec: {template: {spec: {containers: [{name: app, image: two}]}}}}}"
	if _, err := run(t.Context(), t, c, action(t, verb), &host{}); err != nil {
		t.Fatal(err)
	}
	got, _, _ := unstructured.NestedSlice(c.Object(ref(deployments, "web")).Object, "spec", "template", "spec", "containers")
	diff(t, "containers", []any{map[string]any{"name": "app", "image": "two"}, map[string]any{"name": "proxy", "image": "one"}}, got)
}

func TestPatchSubresource(t *testing.T) {
	c := newCluster(t, widget("a"))
	verb := "patch: {resource: widgets.example.com, namespace: demo, name: a, subresource: status, patch: {spec: {size: 9}, status: {phase: Done}}}"
	a := action(t, verb)
	if _, err := run(t.Context(), t, c, a, &host{}); err != nil {
		t.Fatal(err)
	}
	got := c.Object(ref(widgets, "a"))
	diff(t, "status", any(map[string]any{"phase": "Done"}), got.Object["status"])
	diff(t, "spec", any(map[string]any{"size": int64(1)}), got.Object["spec"])
	for _, p := range a.Permissions() {
		if p.Verb == "patch" && p.Subresource != "status" {
			t.Errorf("it asks for %s, which it does not need", p)
		}
	}
}

func TestPatchSkipsWhatWentMeanwhile(t *testing.T) {
	c := newCluster(t, widget("a"), widget("b"))
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "patch" && call.Ref.Name == "a" {
			c.Remove(ref(widgets, "a"))
		}
		return nil
	})
	res, err := run(t.Context(), t, c, action(t, "patch: {resource: widgets.example.com, namespace: demo, selector: app=web, patch: {spec: {size: 2}}}"), &host{})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "value", any(map[string]any{"changed": []any{"demo/widgets.example.com/b"}, "unchanged": []any{}}), res.Value)
}

func TestPatchLeavesTheNextObjectOfTheNameAlone(t *testing.T) {
	c := newCluster(t, widget("a"))
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "patch" {
			c.Remove(ref(widgets, "a"))
			return c.Put(widget("a"))
		}
		return nil
	})
	_, err := run(t.Context(), t, c, action(t, "patch: {resource: widgets.example.com, namespace: demo, name: a, patch: {spec: {size: 2}}}"), &host{})
	contains(t, err, "patch widgets.example.com a in demo", "UID")
	diff(t, "spec", any(map[string]any{"size": int64(1)}), c.Object(ref(widgets, "a")).Object["spec"])
}

func TestPatchArguments(t *testing.T) {
	for verb, want := range map[string]string{
		"patch: {resource: nodes, name: a, patch: [{op: remove, path: /x}]}":                   "a merge patch is keys and values",
		"patch: {resource: nodes, name: a, type: json, patch: {spec: {}}}":                     "a JSON patch is a list of operations",
		"patch: {resource: nodes, patch: {spec: {}}}":                                          "this would patch all of them",
		"patch: {resource: nodes, name: a, type: strategy, patch: {}}":                         `did you mean "strategic"`,
		"patch: {resource: nodes, name: a, selector: b=c, patch: {}}":                          "name and a selector exclude each other",
		"patch: {resource: [pods, nodes], name: a, patch: {}}":                                 "a name needs one resource",
		"patch: {resource: pods, namespace: a, allNamespaces: true, selector: b=c, patch: {}}": "exclude each other",
	} {
		if got := problems(verb); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", verb, got, want)
		}
	}
}
