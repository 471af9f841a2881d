package expr_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/expr"
)

func testEnv(t testing.TB) *expr.Env {
	t.Helper()
	env, err := expr.NewEnv([]expr.Var{
		{Name: "inputs.clusterID", Type: expr.String},
		{Name: "inputs.count", Type: expr.Int},
		{Name: "inputs.note", Type: expr.Nullable(expr.String)},
		{Name: "inputs.ids", Type: expr.List(expr.String)},
		{Name: "inputs.pause", Type: expr.Duration},
		{Name: "inputs.since", Type: expr.Timestamp},
		{Name: "inputs.peerLost", Type: expr.Bool},
		{Name: "inputs.ratio", Type: expr.Double},
		{Name: "steps.find.ns", Type: expr.String},
		{Name: "steps.ids.a.id", Type: expr.String},
		{Name: "result", Type: expr.Dyn},
		{Name: "items", Type: expr.List(expr.Dyn)},
		{Name: "labels", Type: expr.Map(expr.String)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// report writes errors as "offset: message (hint) [ref]", one per line.
func report(err error) string {
	var es expr.Errors
	if err == nil || !errors.As(err, &es) {
		return fmt.Sprint(err)
	}
	var lines []string
	for _, e := range es {
		line := fmt.Sprintf("%d: %s", e.Offset, e.Message)
		if e.Hint != "" {
			line += " (" + e.Hint + ")"
		}
		if e.Ref != "" {
			line += " [" + e.Ref + "]"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

const knownInputs = "known here: inputs.clusterID, inputs.count, inputs.ids, inputs.note, inputs.pause, inputs.peerLost, inputs.ratio, inputs.since"
const knownRoots = "known here: inputs, items, labels, result, steps"

func TestCompileErrors(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct{ src, want string }{
		{"", "0: the expression is empty"},
		{" \n", "0: the expression is empty"},
		// Names.
		{"inputs.clusterId", `0: inputs has no clusterId (did you mean "inputs.clusterID"?) [inputs.clusterId]`},
		{"inputs.clusterId.startsWith('a')", `0: inputs has no clusterId (did you mean "inputs.clusterID"?) [inputs.clusterId]`},
		{"'é' + inputs.xyzzy", "7: inputs has no xyzzy (" + knownInputs + ") [inputs.xyzzy]"},
		{"steps.later.x.y == 1", "0: steps has no later (known here: steps.find.ns, steps.ids.a.id) [steps.later.x.y]"},
		{"steps.find.nss", `0: steps.find has no nss (did you mean "steps.find.ns"?) [steps.find.nss]`},
		{"reslut.status", `0: there is nothing named reslut (did you mean "result.status"?) [reslut.status]`},
		{"reslut", `0: there is nothing named reslut (did you mean "result"?) [reslut]`},
		{"inputs", "0: inputs is not a value by itself, only what is below it (" + knownInputs + ") [inputs]"},
		{"items.map(i, j)", "13: there is nothing named j (" + knownRoots + ") [j]"},
		{"items.map(i, i) + i", "18: there is nothing named i (" + knownRoots + ") [i]"},
		{"has(inputs.count)", "4: has(inputs.count) is always true: inputs.count is a variable, not a field (compare it: inputs.count != null)"},
		{"has(inputs.cont)", `4: inputs has no cont (did you mean "inputs.count"?) [inputs.cont]`},
		{"inputs.count()", "0: inputs.count is a variable, not a function (write inputs.count without ())"},
		{"foo.bar(1)", "0: there is nothing named foo (" + knownRoots + ") [foo]"},
		{"a == b", "0: there is nothing named a (" + knownRoots + ") [a]\n5: there is nothing named b (" + knownRoots + ") [b]"},
		{"zzz || inputs.count + 'x' == ''", "0: there is nothing named zzz (" + knownRoots + ") [zzz]\n20: cannot use + with an int and a string (convert the other side: string(…))"},
		// Types and functions.
		{"inputs.count.x", "12: an int has no fields"},
		{"fooo(1)", "0: there is no function fooo"},
		{"siz([1])", `0: there is no function siz (did you mean "size"?)`},
		{"items.map(i, i, i, i)", "6: map(…) is written with other arguments"},
		{"inputs.count.startsWith('a')", "13: an int has no startsWith(…) that takes a string"},
		{"size(1)", "0: size(…) does not take an int"},
		{"inputs.count ? 1 : 2", "13: the condition before ? must be true or false, got an int"},
		{"true ? 1 : 'a'", "5: both sides of : must have one type, got an int and a string"},
		{"inputs.ids['a']", "10: cannot look up a string in a list of string"},
		{"inputs.count == null", "13: cannot use == with an int and null (this value is never null)"},
		{"!inputs.count", "0: cannot use ! with an int"},
		{"inputs.count.map(i, i)", "6: want a list or a map to go through, got an int"},
		{"result.?a + 'x'", "10: cannot use + with an optional value and a string (say what to use if there is none: .orValue(…))"},
		{"remap(1, 2, 3)", "0: remap(…) does not take an int, an int, an int"},
		// Literals.
		{"duration('x')", `9: this is not a duration (write one like "1h30m", "90s" or "250ms")`},
		{"timestamp('x')", `10: this is not a timestamp (write one like "2026-01-31T08:00:00Z")`},
		{"'a'.matches('(')", "12: this is not a regular expression (regular expressions are written in RE2 syntax)"},
		{"ip('x')", "3: this is not an IP address"},
		{"cidr('x')", `5: this is not a CIDR (write one like "10.0.0.0/16")`},
		// Syntax.
		{"1 +", "3: the expression ends too early"},
		{"result.", "7: the expression ends too early"},
		{"'é' + 'ö' +* 1", `13: unexpected "*"`},
		{"'é'\n + 'ö' +* 1", `14: unexpected "*"`},
		{"'é' + 'abc", "7: this string is not closed, or has a wrong escape in it"},
		{"a b", `2: unexpected "b"`},
		{"1 = 2", `2: unexpected "=": to compare, write "=="`},
		{"é == 1", `0: unexpected "é"`},
		{"for", `0: "for" is a reserved word of CEL and cannot be a name here`},
	} {
		_, err := env.Compile(tc.src, expr.Dyn)
		if diff := cmp.Diff(tc.want, report(err)); diff != "" {
			t.Errorf("Compile(%q) (-want +got):\n%s", tc.src, diff)
		}
	}
}

func TestCompileWantedType(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src  string
		want expr.Type
		err  string
	}{
		{"[1]", expr.String, `0: want a string, got a list of int (join the list: (…).join(", "))`},
		{"1", expr.String, "0: want a string, got an int (convert it: string(…))"},
		{"'1'", expr.Int, "0: want an int, got a string (convert it: int(…))"},
		{"'1m'", expr.Duration, "0: want a duration, got a string (convert it: duration(…))"},
		{"'true'", expr.Bool, `0: want a bool, got a string (compare it: … == "…")`},
		{"result.?a", expr.String, "0: want a string, got an optional value (say what to use if there is none: end it with .orValue(…))"},
		{"['a']", expr.List(expr.Int), "0: want a list of int, got a list of string"},
		{"ip('1.2.3.4')", expr.String, "<nil>"},
		{"1", expr.Double, "<nil>"},
		{"1u", expr.Int, "<nil>"},
		{"result", expr.Bool, "<nil>"},
		{"inputs.note", expr.Nullable(expr.String), "<nil>"},
		{"inputs.clusterID", expr.Nullable(expr.String), "<nil>"},
		{"null", expr.Nullable(expr.String), "<nil>"},
		{"null", expr.String, "0: want a string, got null"},
	} {
		_, err := env.Compile(tc.src, tc.want)
		if diff := cmp.Diff(tc.err, report(err)); diff != "" {
			t.Errorf("Compile(%q, %s) (-want +got):\n%s", tc.src, tc.want, diff)
		}
	}
}

func TestProgramTypeAndRefs(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src, typ string
		refs     []expr.Ref
	}{
		{"1 + 2", "an int", nil},
		{"cidr('10.0.0.0/8')", "a string", nil},
		{"result.status.role", "anything", []expr.Ref{{Name: "result"}}},
		{"'é' + steps.ids.a.id", "a string", []expr.Ref{{Name: "steps.ids.a.id", Offset: 7}}},
		{"items.filter(i, i.x == inputs.count)", "a list", []expr.Ref{{Name: "items"}, {Name: "inputs.count", Offset: 23}}},
		{"inputs.ids.map(result, result + 'x')", "a list of string", []expr.Ref{{Name: "inputs.ids"}}},
		{"has(result.a) && cel.bind(x, items, x.size() > 0)", "a bool", []expr.Ref{{Name: "result", Offset: 4}, {Name: "items", Offset: 29}}},
		{"inputs.note", "a string or null", []expr.Ref{{Name: "inputs.note"}}},
		{"[ip('1.2.3.4')]", "a list of string", nil},
		{"{1: 2u}", "a map of int", nil},
		{"[]", "a list", nil},
		{"type(1)", "a string", nil},
		{"result.?a", "anything", []expr.Ref{{Name: "result"}}},
		{"labels", "a map of string", []expr.Ref{{Name: "labels"}}},
	} {
		p, err := env.Compile(tc.src, expr.Dyn)
		if err != nil {
			t.Errorf("Compile(%q): %v", tc.src, err)
			continue
		}
		if got := p.Type().String(); got != tc.typ {
			t.Errorf("Type of %q = %s, want %s", tc.src, got, tc.typ)
		}
		if diff := cmp.Diff(tc.refs, p.Refs()); diff != "" {
			t.Errorf("Refs of %q (-want +got):\n%s", tc.src, diff)
		}
	}
}

func TestNewEnvRefusesBadDeclarations(t *testing.T) {
	for _, vars := range [][]expr.Var{
		{{Name: "a-b"}}, {{Name: "a."}}, {{Name: ""}}, {{Name: "x"}, {Name: "x"}},
	} {
		if _, err := expr.NewEnv(vars); err == nil {
			t.Errorf("NewEnv(%v) succeeded, want an error", vars)
		}
	}
}

func TestWithLeavesTheFirstEnvAlone(t *testing.T) {
	env := testEnv(t)
	more, err := env.With(expr.Var{Name: "item", Type: expr.Int}, expr.Var{Name: "result", Type: expr.String})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := more.Compile("item + result.size()", expr.Int); err != nil {
		t.Errorf("with item: %v", err)
	}
	if _, err := env.Compile("item", expr.Int); err == nil {
		t.Error("the first Env knows item too")
	}
	if got, want := len(more.Vars()), len(env.Vars())+1; got != want {
		t.Errorf("Vars: got %d, want %d", got, want)
	}
}
