package expr_test

import (
	"errors"
	"strings"
	"testing"

	"rutter/runbooks/expr"
)

var seeds = []string{
	"", "plain", "$${x}", "${inputs.count}", "a ${'}'} b", "${r\"\\\"}", "${'''}'''}", "${{'a': 1}.a}", "${", "$", "${'é' + nope}",
	"inputs.clusterID + 'x'", "items.map(i, i.x)", "result.?a[?0].orValue('')", "has(inputs.count)", "1 / 0", "é", "'\\q'",
	"remap('10.0.0.1', '10.0.0.0/8', '11.0.0.0/8')", "quantity('1e3') > quantity('1Ki')", "semver('1') < semver('2')",
	"inputs.ids[0] + string(1.5)", "b'\\xff'", "cel.bind(x, 1, x)", "\x00", "\xff'", "/* ${x}", "${1 // }\n}", "`a`", "inputs.`x`",
	"result in result", "-(-9223372036854775808)", "ip(1)", "cidr(b'')", "duration(1)", "matches(1,2)", "items.map(i, i, j, k)",
}

// offsetsWithin fails unless all errors are Errors with offsets inside src.
func offsetsWithin(t *testing.T, src string, err error) {
	if err == nil {
		return
	}
	var es expr.Errors
	if !errors.As(err, &es) || len(es) == 0 {
		t.Fatalf("%q: got %T, want Errors", src, err)
	}
	for _, e := range es {
		if e.Offset < 0 || e.Offset > len(src) || e.Message == "" || strings.ContainsRune(e.Message, '\n') {
			t.Errorf("%q: bad error at %d: %q", src, e.Offset, e.Message)
		}
	}
}

// FuzzTemplate checks that every string is a template or has errors inside
// it, and that text survives.
func FuzzTemplate(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	env := testEnv(f)
	f.Fuzz(func(t *testing.T, src string) {
		escaped, err := env.Template(strings.ReplaceAll(src, "${", "$${"), expr.String)
		if err != nil || !escaped.IsLiteral() {
			t.Fatalf("escaped %q: %v", src, err)
		}
		if got := escaped.Literal(); got != src && !strings.Contains(src, "$${") {
			t.Errorf("Literal: got %q, want %q", got, src)
		}
		tpl, err := env.Template(src, expr.Dyn)
		offsetsWithin(t, src, err)
		if err != nil {
			return
		}
		for _, p := range tpl.Parts() {
			if p.Program != nil && !strings.HasPrefix(src[p.Offset:], p.Program.Source()) {
				t.Errorf("%q: part %q is not at %d", src, p.Program.Source(), p.Offset)
			}
		}
		for _, r := range tpl.Refs() {
			if r.Offset < 0 || r.Offset >= len(src) {
				t.Errorf("%q: ref %v is outside", src, r)
			}
		}
		tpl.Symbolic(expr.Marker{Ref: strings.ToUpper, Formula: strings.ToUpper})
		if _, err := tpl.Eval(t.Context(), testVars()); err != nil && err.Error() == "" {
			t.Errorf("%q: empty error", src)
		}
	})
}

// FuzzCompile checks that no expression panics or breaks its bounds.
func FuzzCompile(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	env := testEnv(f)
	f.Fuzz(func(t *testing.T, src string) {
		p, err := env.Compile(src, expr.Dyn)
		offsetsWithin(t, src, err)
		if err != nil {
			return
		}
		if path, ok := p.Path(); ok && path.JSONPath() == "" {
			t.Errorf("%q: empty jsonpath", src)
		}
		v, err := p.Eval(t.Context(), testVars())
		if err == nil && v.IsUnknown() && v.V != nil {
			t.Errorf("%q: both known and unknown: %v", src, v)
		}
	})
}
