package expr_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/expr"
)

func testVars() expr.Vars {
	return expr.Vars{
		"inputs.clusterID": "milan",
		"inputs.count":     float64(3), // as after JSON
		"inputs.note":      nil,
		"inputs.ids":       []any{"a", "b"},
		"inputs.pause":     "1m30s",
		"inputs.since":     "2026-01-31T08:00:00+02:00",
		"inputs.peerLost":  true,
		"inputs.ratio":     2,
		"steps.find.ns":    expr.Unknown,
		"steps.ids.a.id":   "turin",
		"items":            expr.Unknown,
		"labels":           map[string]any{"liqo.io/x": "y"},
		"result": map[string]any{
			"status": map[string]any{"role": "Consumer", "n": int64(3), "f": 2.5, "none": nil},
			"items":  []any{map[string]any{"metadata": map[string]any{"name": "one"}}},
			"cidr":   "10.0.0.0/8",
		},
	}
}

func TestEval(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src  string
		want any
	}{
		{"inputs.clusterID + '!'", "milan!"},
		{"inputs.count + 1", int64(4)},
		{"inputs.count > 2.5 && result.status.n > 2.5 && result.status.f < 3", true},
		{"inputs.note == null", true},
		{"inputs.note != null ? inputs.note : 'none'", "none"},
		{"inputs.ids.exists(i, i == 'b')", true},
		{"inputs.pause == duration('90s')", true},
		{"inputs.pause", 90 * time.Second},
		{"inputs.since", "2026-01-31T06:00:00Z"},
		{"inputs.since + inputs.pause", "2026-01-31T06:01:30Z"},
		{"inputs.ratio", 2.0},
		{"result.status.role", "Consumer"},
		{"result.?status.?gone", nil},
		{"result.?status.?gone.orValue('d')", "d"},
		{"result.?gone.deep.orValue('d')", "d"},
		{"result.status.none == null", true},
		{"has(result.status.gone)", false},
		{"result.items[0].metadata.name", "one"},
		{"result.items", []any{map[string]any{"metadata": map[string]any{"name": "one"}}}},
		{"result.items.map(i, i.metadata.name)", []any{"one"}},
		{"labels['liqo.io/x']", "y"},
		{"[1, 'a', 2.5, null, {'k': 1u}]", []any{int64(1), "a", 2.5, nil, map[string]any{"k": int64(1)}}},
		{"{1: 'x'}", map[string]any{"1": "x"}},
		{"b'abc'", []byte("abc")},
		{"ip('10.0.0.1')", "10.0.0.1"},
		{"cidr(result.cidr).containsIP('10.1.1.1')", true},
		{"[cidr('10.1.0.0/16').masked()]", []any{"10.1.0.0/16"}},
		{"semver('v1.2')", "v1.2"},
		{"quantity('100m')", "100m"},
		{"type(1)", "int"},
		{"optional.of(1)", int64(1)},
		{"{'a': 1}.transformList(k, v, k + string(v))", []any{"a1"}},
		{"cel.bind(x, 'a', x + x)", "aa"},
		{"'a,b'.split(',').join('-').upperAscii()", "A-B"},
		{"base64.encode(b'hi')", "aGk="},
		{"math.greatest(1, 2)", int64(2)},
		{"regex.extract('v1.2', 'v([0-9]+)').orValue('')", "1"},
		{"sets.contains([1, 2], [2])", true},
		{"inputs.ids.sort()[0]", "a"},
	} {
		p, err := env.Compile(tc.src, expr.Dyn)
		if err != nil {
			t.Errorf("Compile(%q): %s", tc.src, report(err))
			continue
		}
		got, err := p.Eval(t.Context(), testVars())
		if err != nil {
			t.Errorf("Eval(%q): %v", tc.src, err)
		}
		if diff := cmp.Diff(expr.Value{V: tc.want}, got); diff != "" {
			t.Errorf("Eval(%q) (-want +got):\n%s", tc.src, diff)
		}
	}
}

func TestEvalUnknown(t *testing.T) {
	env := testEnv(t)
	ns := []string{"steps.find.ns"}
	for _, tc := range []struct {
		src  string
		want expr.Value
	}{
		{"steps.find.ns", expr.Value{Unknown: ns}},
		{"steps.find.ns + 'x'", expr.Value{Unknown: ns}},
		{"steps.find.ns == 'a' || inputs.peerLost", expr.Value{V: true}},
		{"inputs.peerLost || steps.find.ns == 'a'", expr.Value{V: true}},
		{"!inputs.peerLost && steps.find.ns == 'a'", expr.Value{V: false}},
		{"steps.find.ns == 'a' && !inputs.peerLost", expr.Value{V: false}},
		{"inputs.peerLost && steps.find.ns == 'a'", expr.Value{Unknown: ns}},
		{"inputs.peerLost ? 'a' : steps.find.ns", expr.Value{V: "a"}},
		{"steps.find.ns == 'a' ? 1 : 2", expr.Value{Unknown: ns}},
		{"items.map(i, i.x)", expr.Value{Unknown: []string{"items"}}},
		{"items.exists(i, i.x == 1) || items[0] == steps.find.ns", expr.Value{Unknown: []string{"items", "steps.find.ns"}}},
		{"inputs.ids.map(i, i + steps.find.ns)", expr.Value{Unknown: ns}},
		{"has(items[0].a)", expr.Value{Unknown: []string{"items"}}},
		{"items[0].?a.orValue('x')", expr.Value{Unknown: []string{"items"}}},
		{"cel.bind(x, steps.find.ns, x + x)", expr.Value{Unknown: ns}},
		{"remap(steps.find.ns, '10.0.0.0/8', '11.0.0.0/8')", expr.Value{Unknown: ns}},
		{"[steps.find.ns, 'x']", expr.Value{Unknown: ns}},
		{"{'a': steps.find.ns}", expr.Value{Unknown: ns}},
	} {
		p, err := env.Compile(tc.src, expr.Dyn)
		if err != nil {
			t.Errorf("Compile(%q): %s", tc.src, report(err))
			continue
		}
		got, err := p.Eval(t.Context(), testVars())
		if err != nil {
			t.Errorf("Eval(%q): %v", tc.src, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("Eval(%q) (-want +got):\n%s", tc.src, diff)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src  string
		want expr.Type
		err  string
	}{
		{"result.status.gone", expr.Dyn, `no "gone" in result.status`},
		{"result.gone.status", expr.Dyn, `no "gone" in result`},
		{"result.status['gone']", expr.Dyn, `no "gone" in result.status`},
		{"labels.x", expr.Dyn, `no "x" in labels`},
		{"labels[inputs.clusterID]", expr.Dyn, `labels[inputs.clusterID]: there is no "milan"`},
		{"result.items[4]", expr.Dyn, "result.items[4]: the list has no item 4"},
		{"result.status + 1", expr.Dyn, "result.status + 1: cannot use + with values of these types"},
		{"1 / (inputs.count - 3)", expr.Dyn, "1 / (inputs.count - 3): division by zero"},
		{"int(inputs.clusterID)", expr.Dyn, "int(inputs.clusterID): cannot make an int of a string"},
		{"result.status.role", expr.Bool, "result.status.role: want a bool, got a string"},
		{"result.status", expr.String, "result.status: want a string, got a map"},
		{"result.status.none", expr.String, "result.status.none: want a string, got null"},
		{"result.status.f", expr.Int, "result.status.f: want an int, got a number"},
		{"semver(inputs.clusterID) < semver('1')", expr.Dyn, `semver(inputs.clusterID) < semver('1'): "milan" is not a version like 1.2.3`},
		{"lists.range(100000).map(x, lists.range(100000))", expr.Dyn, "lists.range(100000).map(x, lists.range(100000)): stopped because it takes too much work (more than 10000000 operations)"},
	} {
		p, err := env.Compile(tc.src, tc.want)
		if err != nil {
			t.Errorf("Compile(%q): %s", tc.src, report(err))
			continue
		}
		got, err := p.Eval(t.Context(), testVars())
		if diff := cmp.Diff(tc.err, fmt.Sprint(err)); diff != "" {
			t.Errorf("Eval(%q) = %v (-want +got):\n%s", tc.src, got, diff)
		}
	}
}

func TestEvalChecksVariables(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		name string
		v    any
		err  string
	}{
		{"inputs.count", "3", "inputs.count: want an int, got a string"},
		{"inputs.count", 2.5, "inputs.count: want an int, got a number"},
		{"inputs.count", nil, "inputs.count: want an int, got null"},
		{"inputs.clusterID", 1, "inputs.clusterID: want a string, got an int"},
		{"inputs.ids", []any{"a", 1}, "inputs.ids: [1]: want a string, got an int"},
		{"inputs.ids", "a", "inputs.ids: want a list, got a string"},
		{"inputs.pause", "soon", `inputs.pause: want a duration, got "soon"`},
		{"inputs.since", "now", `inputs.since: want a timestamp, got "now"`},
		{"inputs.note", 1, "inputs.note: want a string or null, got an int"},
	} {
		p, err := env.Compile(tc.name, expr.Dyn)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Eval(t.Context(), expr.Vars{tc.name: tc.v})
		if got := fmt.Sprint(err); got != tc.err {
			t.Errorf("%s = %v: got %s, want %s", tc.name, tc.v, got, tc.err)
		}
		if _, err = p.Eval(t.Context(), nil); err == nil || !strings.Contains(err.Error(), tc.name) {
			t.Errorf("without %s: got %v, want an error naming it", tc.name, err)
		}
	}
}

func TestEvalStopsWithItsContext(t *testing.T) {
	p, err := testEnv(t).Compile("lists.range(90000).map(x, x + 1).size()", expr.Int)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Eval(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestWithFunc(t *testing.T) {
	get := expr.WithFunc("get", []expr.Type{expr.String, expr.String}, expr.Dyn, func(args []any) (any, error) {
		if args[1] == "gone" {
			return nil, errors.New("gone is not there")
		}
		return map[string]any{"kind": args[0], "status": map[string]any{"phase": "Active"}}, nil
	})
	env, err := expr.NewEnv(nil, get)
	if err != nil {
		t.Fatal(err)
	}
	p, err := env.Compile(`get("namespaces", "x").status.phase == "Active"`, expr.Bool)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Eval(t.Context(), nil); err != nil || got.V != true {
		t.Errorf("got %v, %v; want true", got, err)
	}
	p, err = env.Compile(`get("namespaces", "gone")`, expr.Dyn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Eval(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "gone is not there") {
		t.Errorf("got %v, want the function's error", err)
	}
}

// TestMacroVariablesHideDeclaredOnes tells what a macro's variable means when
// it has the name of a declared one.
func TestMacroVariablesHideDeclaredOnes(t *testing.T) {
	env := testEnv(t)
	for src, want := range map[string]any{
		"inputs.ids.map(result, result + 'x')[0]":                    "ax",
		"[{'count': 7}].map(inputs, inputs.count)[0]":                int64(7),
		"[{'count': 7}].map(inputs, inputs.count)[0] + inputs.count": int64(10),
		"cel.bind(inputs, {'clusterID': 'x'}, inputs.clusterID)":     "x",
	} {
		p, err := env.Compile(src, expr.Dyn)
		if err != nil {
			t.Errorf("Compile(%q): %s", src, report(err))
			continue
		}
		if got, err := p.Eval(t.Context(), testVars()); err != nil || got.V != want {
			t.Errorf("Eval(%q) = %v, %v; want %v", src, got, err, want)
		}
	}
}
