package expr

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

func semverFunctions() []function {
	str := []*cel.Type{cel.StringType}
	part := func(name string, of func(version) int64) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("semver_"+name, []*cel.Type{semverType}, cel.IntType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return types.Int(of(v.Value().(version))) })))
	}
	return []function{{
		Function: Function{
			Name: "semver",
			Signature: "semver(string) -> semver\nsemver < semver, <=, >, >=, ==\n" +
				"semver.isLessThan(semver) -> bool, isGreaterThan(semver) -> bool, compareTo(semver) -> int\n" +
				"semver.major() -> int, minor() -> int, patch() -> int",
			Doc: "Reads a semantic version, with or without a leading v; a missing minor or patch number counts " +
				"as 0. A pre-release comes before its release, and build metadata is ignored.",
			Example: `semver("v1.2.0-rc.1") < semver("1.2.0") && semver("v1.10") > semver("v1.9.3")`,
		},
		opts: append(ordered("semver", semverType),
			cel.Types(semverType),
			cel.Function("semver", cel.Overload("string_to_semver", str, semverType, cel.UnaryBinding(toSemver))),
			part("major", func(v version) int64 { return v.core[0] }),
			part("minor", func(v version) int64 { return v.core[1] }),
			part("patch", func(v version) int64 { return v.core[2] }),
		),
	}, {
		Function: Function{
			Name:      "isSemver",
			Signature: "isSemver(string) -> bool",
			Doc:       "Reports whether the text is a version that semver reads.",
			Example:   `isSemver("v1.2.0") && !isSemver("latest")`,
		},
		opts: []cel.EnvOption{cel.Function("isSemver", cel.Overload("is_semver", str, cel.BoolType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				_, err := parseVersion(string(v.(types.String)))
				return types.Bool(err == nil)
			})))},
	}, {
		Function: Function{
			Name:      "semverCompare",
			Signature: "semverCompare(string, string) -> int",
			Doc:       "Returns -1, 0 or 1 as the first version comes before, equals or comes after the second.",
			Example:   `semverCompare("v1.0.3", "1.2.0") == -1`,
		},
		opts: []cel.EnvOption{cel.Function("semverCompare", cel.Overload("semver_compare",
			[]*cel.Type{cel.StringType, cel.StringType}, cel.IntType,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val {
				x := toSemver(a)
				if types.IsError(x) {
					return x
				}
				y := toSemver(b)
				if types.IsError(y) {
					return y
				}
				return x.(*opaque).Compare(y)
			})))},
	}}
}

func toSemver(v ref.Val) ref.Val {
	text := string(v.(types.String))
	ver, err := parseVersion(text)
	if err != nil {
		return types.WrapErr(err)
	}
	return &opaque{kind: semverType, text: text, value: ver, compare: func(a, b any) int {
		return a.(version).compare(b.(version))
	}}
}

type version struct {
	core       [3]int64
	prerelease []string
}

var versionForm = regexp.MustCompile(`^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$`)

func parseVersion(s string) (version, error) {
	m := versionForm.FindStringSubmatch(s)
	if m == nil {
		return version{}, fmt.Errorf("%q is not a version like 1.2.3", s)
	}
	var v version
	for i := range v.core {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil {
			return version{}, fmt.Errorf("%q is not a version: %s is too large", s, m[i+1])
		}
		v.core[i] = n
	}
	if m[4] != "" {
		v.prerelease = strings.Split(m[4], ".")
	}
	return v, nil
}

func (v version) compare(w version) int {
	for i := range v.core {
		if c := cmp.Compare(v.core[i], w.core[i]); c != 0 {
			return c
		}
	}
	if len(v.prerelease) == 0 || len(w.prerelease) == 0 { // the one without is the release
		return cmp.Compare(len(w.prerelease), len(v.prerelease))
	}
	for i := range min(len(v.prerelease), len(w.prerelease)) {
		if c := compareIdentifier(v.prerelease[i], w.prerelease[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.prerelease), len(w.prerelease))
}

// compareIdentifier orders numbers by value and before words.
func compareIdentifier(a, b string) int {
	na, nb := isDigits(a), isDigits(b)
	switch {
	case na && nb:
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	case na:
		return -1
	case nb:
		return 1
	}
	return strings.Compare(a, b)
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
