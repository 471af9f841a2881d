package expr_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/jsonpath"

	"rutter/runbooks/expr"
)

func TestPath(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src, root, jsonPath, fallback string
	}{
		{"result", "result", "{$}", ""},
		{"result.status.tenantNamespace.local", "result", "{.status.tenantNamespace.local}", ""},
		{"result.items[0].metadata.name", "result", "{.items[0].metadata.name}", ""},
		{"result[0].metadata.name", "result", "{[0].metadata.name}", ""},
		{`result.metadata.labels["liqo.io/x"]`, "result", `{.metadata.labels.liqo\.io/x}`, ""},
		{"result.?status.?role", "result", "{.status.role}", ""},
		{"result.?status.role", "result", "{.status.role}", ""},
		{"result.items[?0].?metadata.name.orValue('')", "result", "{.items[0].metadata.name}", ""},
		{"result.metadata.?labels[?'a/b'].orValue('x-' + inputs.clusterID)", "result", "{.metadata.labels.a/b}", "x-<inputs.clusterID>"},
		{"steps.ids.a.id", "steps.ids.a.id", "{$}", ""},
		{"labels.x", "labels", "{.x}", ""},
	} {
		p, err := env.Compile(tc.src, expr.Dyn)
		if err != nil {
			t.Errorf("Compile(%q): %s", tc.src, report(err))
			continue
		}
		path, ok := p.Path()
		if !ok || path.Root != tc.root || path.JSONPath() != tc.jsonPath {
			t.Errorf("Path(%q) = %v %v, %s; want %s %s", tc.src, ok, path, path.JSONPath(), tc.root, tc.jsonPath)
		}
		fallback := ""
		if path.Default != nil {
			fallback = path.Default.Symbolic(expr.Marker{Ref: func(n string) string { return "<" + n + ">" }})
		}
		if fallback != tc.fallback {
			t.Errorf("Path(%q): default %s, want %s", tc.src, fallback, tc.fallback)
		}
	}
	for _, src := range []string{
		"result.a + 'x'", "'x'", "result[-1]", "result[inputs.count]", "result.items.size()", "has(result.a)",
		"result.?a.orValue(result.b)", "items.map(i, i)", "inputs.peerLost ? result.a : result.b", "result[true]",
	} {
		p, err := env.Compile(src, expr.Dyn)
		if err != nil {
			t.Errorf("Compile(%q): %s", src, report(err))
			continue
		}
		if path, ok := p.Path(); ok {
			t.Errorf("Path(%q) = %v, want none", src, path)
		}
	}
}

// TestJSONPathMeansTheSame compares with what kubectl uses, for awkward keys.
func TestJSONPathMeansTheSame(t *testing.T) {
	for _, key := range []string{
		"plain", "liqo.io/x", "a.b.c", "a-b_c", "a b", "a,b", "a[0]", "a]", "a{b}", "it's", `say "x"`,
		"$x", "@y", "a|b", "(x)", "*", "é", "0", "a\tb", "a:b", "end.", ".start", "$", "@", "a'b\"c",
	} {
		obj := map[string]any{"m": map[string]any{key: []any{map[string]any{"v": "found"}}}}
		path := expr.Path{Steps: []expr.PathStep{{Key: "m"}, {Key: key}, {IsIndex: true}, {Key: "v"}}}.JSONPath()
		jp := jsonpath.New("test")
		if err := jp.Parse(path); err != nil {
			t.Errorf("key %q: kubectl cannot parse %s: %v", key, path, err)
			continue
		}
		var out bytes.Buffer
		if err := jp.Execute(&out, obj); err != nil || out.String() != "found" {
			t.Errorf("key %q: kubectl finds %q, %v with %s", key, out.String(), err, path)
		}
	}
	jp := jsonpath.New("whole")
	if err := jp.Parse(expr.Path{}.JSONPath()); err != nil {
		t.Fatal(err)
	}
	results, err := jp.FindResults(map[string]any{"a": "b"})
	if err != nil || len(results) != 1 || len(results[0]) != 1 {
		t.Fatalf("whole object: got %v, %v", results, err)
	}
	if diff := cmp.Diff(map[string]any{"a": "b"}, results[0][0].Interface()); diff != "" {
		t.Errorf("whole object (-want +got):\n%s", diff)
	}
}
