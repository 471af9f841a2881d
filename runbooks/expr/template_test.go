package expr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/expr"
)

func TestTemplate(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src  string
		want expr.Type
		v    any
	}{
		{"plain", expr.String, "plain"},
		{"", expr.String, ""},
		{"costs $5 {x}", expr.String, "costs $5 {x}"},
		{"$${inputs.count}", expr.String, "${inputs.count}"},
		{"a $${b} ${inputs.count}", expr.String, "a ${b} 3"},
		{"${inputs.count}", expr.Dyn, int64(3)},
		{"${ inputs.ids }", expr.Dyn, []any{"a", "b"}},
		{"${inputs.count} ", expr.Dyn, "3 "},
		{"${inputs.clusterID}${inputs.count}", expr.String, "milan3"},
		{"é ${'ö' + inputs.clusterID}ü", expr.String, "é ömilanü"},
		{"x${inputs.ids}", expr.String, `x["a","b"]`},
		{"x${result.status}", expr.String, `x{"f":2.5,"n":3,"none":null,"role":"Consumer"}`},
		{"x${{'a': '<b>', 'd': duration('1m')}}", expr.String, `x{"a":"<b>","d":"1m0s"}`},
		{"${1.50}/${2.0}/${1e21}", expr.String, "1.5/2/1000000000000000000000"},
		{"${inputs.peerLost}, ${inputs.pause}, ${inputs.since}", expr.String, "true, 1m30s, 2026-01-31T06:00:00Z"},
		{"${'}'}", expr.String, "}"},
		{`${"}\"}"}`, expr.String, `}"}`},
		{`${r"\"}`, expr.String, `\`},
		{`${r'}\' + "}"}`, expr.String, `}\}`},
		{`${'''}'"}'''}`, expr.String, `}'"}`},
		{"${{'a': {'b': 1}}.a.b}", expr.Int, int64(1)},
		{"${1 // a } in a comment\n}", expr.Int, int64(1)},
		// Text where another type is wanted.
		{"3", expr.Int, int64(3)},
		{"true", expr.Bool, true},
		{"1.5", expr.Double, 1.5},
		{"2m", expr.Duration, 2 * time.Minute},
		{"${inputs.count}m", expr.Duration, 3 * time.Minute},
		{"${'5' + 's'}", expr.Duration, 5 * time.Second},
		{"${inputs.pause}", expr.Duration, 90 * time.Second},
		{"2026-01-31T08:00:00+02:00", expr.Timestamp, "2026-01-31T06:00:00Z"},
		{"${inputs.count}", expr.Double, 3.0},
	} {
		tpl, err := env.Template(tc.src, tc.want)
		if err != nil {
			t.Errorf("Template(%q): %s", tc.src, report(err))
			continue
		}
		got, err := tpl.Eval(t.Context(), testVars())
		if err != nil {
			t.Errorf("Eval(%q): %v", tc.src, err)
		}
		if diff := cmp.Diff(expr.Value{V: tc.v}, got); diff != "" {
			t.Errorf("Eval(%q) (-want +got):\n%s", tc.src, diff)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct {
		src  string
		want expr.Type
		err  string
	}{
		{"é ${inputs.clusterId}", expr.String, `5: inputs has no clusterId (did you mean "inputs.clusterID"?) [inputs.clusterId]`},
		{"${aa} ${bb}", expr.String, "2: there is nothing named aa (" + knownRoots + ") [aa]\n8: there is nothing named bb (" + knownRoots + ") [bb]"},
		{"é ${inputs.count", expr.String, "3: this ${ is never closed (close it with }, or write $${ for a literal ${)"},
		{"${'}", expr.String, "2: this string is not closed, or has a wrong escape in it"},
		{"${}", expr.String, "2: there is nothing between ${ and }"},
		{"x ${ }", expr.String, "4: there is nothing between ${ and }"},
		{"${inputs.count}", expr.String, "2: want a string, got an int (convert it: string(…))"},
		{"x", expr.Int, `0: want an int, got "x"`},
		{"yes", expr.Bool, `0: want a bool, got "yes"`},
		{"x", expr.List(expr.String), "0: want a list of string, got text"},
		{"x ${inputs.ids}", expr.List(expr.String), "0: want a list of string, got text"},
		{"5 minutes", expr.Duration, `0: want a duration, got "5 minutes"`},
		{"${inputs.count}", expr.Duration, "2: want a duration, got an int"},
	} {
		_, err := env.Template(tc.src, tc.want)
		if diff := cmp.Diff(tc.err, report(err)); diff != "" {
			t.Errorf("Template(%q, %s) (-want +got):\n%s", tc.src, tc.want, diff)
		}
	}
}

func TestTemplateEvalErrors(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct{ src, err string }{
		{"x ${inputs.note}", "inputs.note is null"},
		{"x ${result.gone}", `no "gone" in result`},
		{"${result.gone}", `no "gone" in result`},
	} {
		tpl, err := env.Template(tc.src, expr.Dyn)
		if err != nil {
			t.Errorf("Template(%q): %s", tc.src, report(err))
			continue
		}
		_, err = tpl.Eval(t.Context(), testVars())
		if got := fmt.Sprint(err); got != tc.err {
			t.Errorf("Eval(%q): got %s, want %s", tc.src, got, tc.err)
		}
	}
}

func TestTemplateAccessors(t *testing.T) {
	env := testEnv(t)
	literal, err := env.Template("a $${b}", expr.String)
	if err != nil {
		t.Fatal(err)
	}
	if !literal.IsLiteral() || literal.Literal() != "a ${b}" || literal.Whole() != nil {
		t.Errorf("literal: got %v, %q", literal.IsLiteral(), literal.Literal())
	}
	mixed, err := env.Template("é ${inputs.clusterID}-${steps.find.ns}", expr.Dyn)
	if err != nil {
		t.Fatal(err)
	}
	want := []expr.Ref{{Name: "inputs.clusterID", Offset: 5}, {Name: "steps.find.ns", Offset: 25}}
	if diff := cmp.Diff(want, mixed.Refs()); diff != "" {
		t.Errorf("Refs (-want +got):\n%s", diff)
	}
	if mixed.IsLiteral() || mixed.Literal() != "" || !mixed.Type().Equal(expr.String) || len(mixed.Parts()) != 4 {
		t.Errorf("mixed: got %v, %q, %s, %d parts", mixed.IsLiteral(), mixed.Literal(), mixed.Type(), len(mixed.Parts()))
	}
	got, err := mixed.Eval(t.Context(), testVars())
	if diff := cmp.Diff(expr.Value{Unknown: []string{"steps.find.ns"}}, got); err != nil || diff != "" {
		t.Errorf("Eval: %v (-want +got):\n%s", err, diff)
	}
	whole, err := env.Template("${inputs.count}", expr.Dyn)
	if err != nil {
		t.Fatal(err)
	}
	if !whole.Type().Equal(expr.Int) || whole.Whole() == nil {
		t.Errorf("whole: got %s, %v", whole.Type(), whole.Whole())
	}
}

func TestSymbolic(t *testing.T) {
	env := testEnv(t)
	marker := expr.Marker{
		Ref:     func(name string) string { return "<" + name + ">" },
		Formula: func(src string) string { return "{{" + src + "}}" },
	}
	for _, tc := range []struct{ src, want string }{
		{"plain $${x}", "plain ${x}"},
		{"${inputs.clusterID}", "<inputs.clusterID>"},
		{"ns-${inputs.clusterID}/${steps.ids.a.id}", "ns-<inputs.clusterID>/<steps.ids.a.id>"},
		{"${'liqo-' + inputs.clusterID + '-' + string(inputs.count)}", "liqo-<inputs.clusterID>-<inputs.count>"},
		{"${string(1) + \"a\\n\"}", "1a\n"},
		{"${inputs.count + 1}", "{{inputs.count + 1}}"},
		{"a ${result.status.role} b", "a {{result.status.role}} b"},
		{"${result}", "<result>"},
		{"${result + result}", "{{result + result}}"},
		{"${'x' + result}", "x<result>"},
		{"${inputs.ids[0]}", "{{inputs.ids[0]}}"},
		{"${inputs.clusterID.upperAscii()}", "{{inputs.clusterID.upperAscii()}}"},
	} {
		tpl, err := env.Template(tc.src, expr.Dyn)
		if err != nil {
			t.Errorf("Template(%q): %s", tc.src, report(err))
			continue
		}
		if got := tpl.Symbolic(marker); got != tc.want {
			t.Errorf("Symbolic(%q): got %s, want %s", tc.src, got, tc.want)
		}
	}
}
