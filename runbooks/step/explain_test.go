package step_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rutter/runbooks/step/steptest"
)

const why = `explain:
  deletion: {resource: namespaces, name: demo, contents: [widgets.example.com, gadgets.example.com, things.example.com]}
  owners: {example.com/f: the widget controller}`

// webhook returns a configuration of one webhook for a resource.
func webhook(name, service, policy, resource string, operations ...any) *unstructured.Unstructured {
	return steptest.Object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", name, map[string]any{"webhooks": []any{map[string]any{
		"name": name + ".example.com", "failurePolicy": policy,
		"clientConfig": map[string]any{"service": map[string]any{"namespace": "sys", "name": service}},
		"rules":        []any{map[string]any{"apiGroups": []any{"example.com"}, "apiVersions": []any{"*"}, "resources": []any{resource}, "operations": operations}},
	}}})
}

func endpoints(name, service string, conditions map[string]any) *unstructured.Unstructured {
	o := steptest.Object("discovery.k8s.io/v1", "EndpointSlice", "sys", name, map[string]any{"endpoints": []any{map[string]any{"addresses": []any{"10.0.0.1"}, "conditions": conditions}}})
	o.SetLabels(map[string]string{"kubernetes.io/service-name": service})
	return o
}

func apiService(name, available string) *unstructured.Unstructured {
	return with(steptest.Object("apiregistration.k8s.io/v1", "APIService", "", name, nil),
		[]any{map[string]any{"type": "Available", "status": available, "reason": "ServiceNotFound", "message": "gone"}}, "status", "conditions")
}

func TestExplain(t *testing.T) {
	c := newCluster(t, widget("a", "example.com/f", "example.com/g"),
		deleting(steptest.Object("v1", "Namespace", "", "demo", nil)),
		apiService("v1.fine.example.com", "True"), apiService("v1beta1.metrics.liqo.io", "False"),
		webhook("dead", "dead", "Fail", "widgets", "UPDATE", "CREATE"), webhook("empty", "empty", "Fail", "*", "*"),
		webhook("alive", "alive", "Fail", "widgets", "*"), webhook("lenient", "dead", "Ignore", "widgets", "*"),
		webhook("elsewhere", "dead", "Fail", "gizmos", "*"), webhook("creating", "dead", "Fail", "widgets", "CREATE"),
		endpoints("alive-1", "alive", map[string]any{}), endpoints("empty-1", "empty", map[string]any{"ready": false}))
	a := action(t, why)
	res, err := run(t.Context(), t, c, a, &host{})
	if err != nil {
		t.Fatal(err)
	}
	got := res.Value.(map[string]any)
	delete(got, "object")
	diff(t, "result", map[string]any{
		"exists": true, "deleting": true, "finalizers": []any{},
		"remaining": []any{map[string]any{
			"resource": "widgets.example.com", "namespace": "demo", "name": "a", "finalizers": []any{"example.com/f", "example.com/g"},
			"owner": "the widget controller", "deleting": true,
		}},
		"conditions": []any{
			map[string]any{"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain",
				"message": "Some resources are remaining: widgets.example.com has 1 resource instances",
				"counts":  []any{map[string]any{"name": "widgets.example.com", "count": int64(1)}}},
			map[string]any{"type": "NamespaceFinalizersRemaining", "status": "True", "reason": "SomeFinalizersRemain",
				"message": "Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances, example.com/g in 1 resource instances",
				"counts":  []any{map[string]any{"name": "example.com/f", "count": int64(1)}, map[string]any{"name": "example.com/g", "count": int64(1)}}},
		},
		"apiServices": []any{"v1beta1.metrics.liqo.io: Available is False (ServiceNotFound: gone)"},
		"webhooks": []any{
			"validatingwebhookconfigurations/dead: nothing serves sys/dead, which is asked about UPDATE of widgets.example.com",
			"validatingwebhookconfigurations/empty: nothing serves sys/empty, which is asked about DELETE of gadgets.example.com, DELETE of things.example.com, DELETE of widgets.example.com, and 3 more",
		},
		"unreadable": []any{},
	}, got)
	diff(t, "rows", 5, len(res.Table.Rows))
	p, err := preview(t, c, a)
	if err != nil || !p.Known || p.Said != res.Said {
		t.Errorf("preview %+v, %v", p, err)
	}
}

func TestExplainSaid(t *testing.T) {
	for _, tt := range []struct {
		name, verb string
		objs       []*unstructured.Unstructured
		gone       bool
		want       string
	}{
		{"gone", "explain: {deletion: {resource: widgets.example.com, namespace: demo, name: a}}", nil, false, "demo/widgets.example.com/a is gone"},
		{"not being deleted", "explain: {deletion: {resource: widgets.example.com, namespace: demo, name: a}}", []*unstructured.Unstructured{widget("a", "example.com/f")}, false, "demo/widgets.example.com/a: not being deleted"},
		{"held", "explain: {deletion: {resource: widgets.example.com, namespace: demo, name: a, contents: gadgets.example.com}}", []*unstructured.Unstructured{deleting(widget("a", "example.com/f"))}, false, "demo/widgets.example.com/a: being deleted, held by example.com/f"},
		{"orphans", why, []*unstructured.Unstructured{widget("a")}, true, "namespaces/demo is gone; 1 object remains in a namespace that is gone: make it again before you touch them"},
	} {
		c := newCluster(t, tt.objs...)
		if tt.gone {
			c.Remove(steptestNamespace("demo"))
			put(t, c, tt.objs...)
		}
		res, err := run(t.Context(), t, c, action(t, tt.verb), &host{})
		if err != nil || res.Said != tt.want {
			t.Errorf("%s: got %+v, %v; want %q", tt.name, res, err, tt.want)
		}
	}
}

// TestExplainWithoutRights tells what it may, and names the rest.
func TestExplainWithoutRights(t *testing.T) {
	c := newCluster(t, widget("a", "example.com/f"))
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "list" && call.Query.Resource != widgets {
			return apierrors.NewForbidden(schema.GroupResource{Resource: call.Query.Resource.Plural}, "", errors.New("no"))
		}
		return nil
	})
	res, err := run(t.Context(), t, c, action(t, why), &host{})
	if err != nil {
		t.Fatal(err)
	}
	got := res.Value.(map[string]any)
	if len(got["remaining"].([]any)) != 1 || len(got["unreadable"].([]any)) != 4 || !contained(res.Said, "4 things could not be read") {
		t.Errorf("got %v: %s", got, res.Said)
	}
}

func TestExplainProblems(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"{deletion: {resource: Namespaces, name: a}}", "is no resource"},
		{"{deletion: {resource: nodes, name: a, contents: [pods]}}", "there is none"},
		{"{}", `"deletion" is missing`},
	} {
		if got := problems("explain: " + tt.args); !contained(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
