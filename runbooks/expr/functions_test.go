package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"rutter/runbooks/expr"
)

// evalBare evaluates an expression without variables.
func evalBare(t *testing.T, src string) (any, error) {
	t.Helper()
	p, err := testEnv(t).Compile(src, expr.Dyn)
	if err != nil {
		return nil, err
	}
	v, err := p.Eval(t.Context(), testVars())
	return v.V, err
}

func TestFunctionsAreDocumented(t *testing.T) {
	for _, f := range expr.Functions() {
		if f.Name == "" || !strings.HasPrefix(f.Signature, f.Name+"(") || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("incomplete: %+v", f)
		}
		if got, err := evalBare(t, f.Example); err != nil || got != true {
			t.Errorf("%s: example %s = %v, %v; want true", f.Name, f.Example, got, err)
		}
	}
}

func TestRemap(t *testing.T) {
	for _, tc := range []struct{ ip, spec, status, want string }{
		{"10.243.17.42", "10.243.0.0/16", "10.71.0.0/16", "10.71.17.42"},
		{"10.244.45.200", "10.244.32.0/19", "10.71.96.0/19", "10.71.109.200"},
		{"10.127.67.181", "10.127.64.0/22", "10.71.4.0/22", "10.71.7.181"},
		{"10.201.255.9", "10.192.0.0/10", "10.64.0.0/10", "10.73.255.9"},
		{"10.10.1.203", "10.10.1.192/26", "10.70.3.64/26", "10.70.3.75"},
		{"fd00:10:244:1::2a", "fd00:10:244::/56", "fd00:71:0:ab00::/56", "fd00:71:0:ab01::2a"},
		{"fd00:10:244:7:8::9", "fd00:10:244::/61", "fd71:0:0:a8::/61", "fd71::af:8:0:0:9"},
		{"10.1.0.1", "10.0.0.0/10", "40.32.0.0/10", "40.1.0.1"},
		{"10.255.1.1", "10.255.0.0/18", "78.5.78.143/18", "78.5.65.1"},
		{"10.0.0.1", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.1"},
		{"10.0.0.1", "10.0.0.1/32", "10.9.9.9/32", "10.9.9.9"},
		{"10.0.0.1", "0.0.0.0/0", "0.0.0.0/0", "10.0.0.1"},
	} {
		for _, form := range []string{"remap(%q, %q, %q)", "remap(%q, [%q], [%q])", "remap(%q, dyn(%q), dyn([%q])[0])"} {
			src := fmt.Sprintf(form, tc.ip, tc.spec, tc.status)
			if got, err := evalBare(t, src); err != nil || got != tc.want {
				t.Errorf("%s = %v, %v; want %s", src, got, err, tc.want)
			}
		}
	}
	lists := `remap("10.2.0.7", ["10.1.0.0/16", "10.2.0.0/16"], ["10.71.0.0/16", "10.72.0.0/16"])`
	if got, err := evalBare(t, lists); err != nil || got != "10.72.0.7" {
		t.Errorf("%s = %v, %v; want 10.72.0.7", lists, got, err)
	}
}

func TestRemapErrors(t *testing.T) {
	for _, tc := range []struct{ src, want string }{
		{`remap("10.3.0.1", "10.1.0.0/16", "10.2.0.0/16")`, "10.3.0.1 is in none of the original CIDRs [10.1.0.0/16]"},
		{`remap("fd00::1", "10.1.0.0/16", "10.2.0.0/16")`, "fd00::1 and 10.1.0.0/16 are of different IP families"},
		{`remap("10.1.0.1", "10.1.0.0/16", "fd00::/16")`, "10.1.0.0/16 and fd00::/16 are of different IP families"},
		{`remap("10.1.0.1", "10.1.0.0/16", "")`, "there is no remapped CIDR yet"},
		{`remap("10.1.0.1", "10.1.0.0/16", null)`, "there is no remapped CIDR yet"},
		{`remap("10.1.0.1", ["10.1.0.0/16"], null)`, "there is no remapped CIDR yet"},
		{`remap("10.1.0.1", ["10.1.0.0/16"], result.status.none)`, "there is no remapped CIDR yet"},
		{`remap("10.1.0.1", ["10.1.0.0/16"], [])`, "there is no remapped CIDR yet"},
		{`remap("10.1.0.1", ["10.1.0.0/16"], [""])`, "there is no remapped CIDR for 10.1.0.0/16 yet"},
		{`remap("10.1.0.1", [], [])`, "there is no original CIDR"},
		{`remap("10.1.0.1", "10.1.0.0/16", "10.2.0.0/17")`, "10.1.0.0/16 and 10.2.0.0/17 differ in prefix length"},
		{`remap("10.1.0.1", ["10.1.0.0/16"], ["10.2.0.0/16", "10.3.0.0/16"])`, "1 original but 2 remapped CIDRs"},
		{`remap("10.1.0", "10.1.0.0/16", "10.2.0.0/16")`, `"10.1.0" is not an IP address`},
		{`remap("10.1.0.1", "10.1.0.0", "10.2.0.0/16")`, `"10.1.0.0" is not a CIDR`},
		{`remap("10.1.0.1", "10.1.0.0/16", "10.2.0.0/99")`, `"10.2.0.0/99" is not a CIDR`},
		{`remap("10.1.0.1", [dyn(1)], ["10.2.0.0/16"])`, "remap(…) does not take values of these types"},
	} {
		if got, err := evalBare(t, tc.src); err == nil || !strings.HasSuffix(err.Error(), tc.want) {
			t.Errorf("%s = %v, %v; want error ending %q", tc.src, got, err, tc.want)
		}
	}
}

func TestSemver(t *testing.T) {
	ordered := []string{
		"v0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "v1.0.0", "1.0.3", "1.1", "1.1.2", "1.2.0-rc.1", "v1.2.0", "1.10.0", "2",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			src := fmt.Sprintf("semverCompare(%q, %q)", a, b)
			want := int64(max(-1, min(1, i-j)))
			if got, err := evalBare(t, src); err != nil || got != want {
				t.Errorf("%s = %v, %v; want %d", src, got, err, want)
			}
		}
	}
	for src, want := range map[string]any{
		`semver("v1.2.3+build") == semver("1.2.3")`:                                 true,
		`semver("1.2.3").major() * 100 + semver("1.2.3").minor() * 10`:              int64(120),
		`semver("1.2.3").patch()`:                                                   int64(3),
		`semver("v1.2.0").isLessThan(semver("1.1.0"))`:                              false,
		`semver("v1.2.0").isGreaterThan(semver("1.1.0"))`:                           true,
		`semver("v1.2.0").compareTo(semver("1.1.0"))`:                               int64(1),
		`semver("1.2") >= semver("1.2.0") && semver("1.2") <= semver("1.2.0")`:      true,
		`string(semver("v1.2"))`:                                                    "v1.2",
		`[isSemver("1.2.3.4"), isSemver(""), isSemver("1.2-"), isSemver("v1.0.3")]`: nil,
	} {
		got, err := evalBare(t, src)
		if want == nil {
			want, got = "[false false false true]", fmt.Sprint(got)
		}
		if err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", src, got, err, want)
		}
	}
	if got, err := evalBare(t, `semver("1.99999999999999999999")`); err == nil {
		t.Errorf("a huge number: got %v, want an error", got)
	}
}

func TestQuantityAgreesWithKubernetes(t *testing.T) {
	amounts := []string{
		"0", "1", "110", "-3", "+2", "100m", "1500m", "1.5", ".5", "5.", "1Ki", "1Mi", "1Gi", "1.5Gi", "2Ti", "1Pi", "1Ei",
		"1k", "1M", "1G", "1T", "1P", "1E", "1e3", "1E3", "12e-1", "5n", "7u", "1000000k", "128974848",
	}
	for _, a := range amounts {
		for _, b := range amounts {
			src := fmt.Sprintf("quantity(%q).compareTo(quantity(%q))", a, b)
			qa, qb := resource.MustParse(a), resource.MustParse(b)
			if got, err := evalBare(t, src); err != nil || got != int64(qa.Cmp(qb)) {
				t.Errorf("%s = %v, %v; want %d", src, got, err, qa.Cmp(qb))
			}
		}
	}
	for src, want := range map[string]any{
		`quantity("1Gi").asInteger()`:                                int64(1 << 30),
		`quantity("1e3").asInteger()`:                                int64(1000),
		`quantity(110) == quantity("110")`:                           true,
		`quantity("100m").asApproximateFloat()`:                      0.1,
		`quantity("1Gi") == quantity("1024Mi")`:                      true,
		`quantity("1Gi").isGreaterThan(quantity("1G"))`:              true,
		`string(quantity("1Gi"))`:                                    "1Gi",
		`isQuantity("1gi") || isQuantity("") || isQuantity("1e999")`: false,
		`isQuantity("1e999999999")`:                                  false,
	} {
		if got, err := evalBare(t, src); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", src, got, err, want)
		}
	}
	if got, err := evalBare(t, `quantity("100m").asInteger()`); err == nil {
		t.Errorf("asInteger of 100m: got %v, want an error", got)
	}
}
