package expr

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// opaque is a value of one of the package's own types, ordered by compare and
// printed as it was written.
type opaque struct {
	kind    *types.Type
	text    string
	value   any
	compare func(a, b any) int
}

var (
	semverType   = types.NewOpaqueType("rutter.Semver").WithTraits(traits.ComparerType)
	quantityType = types.NewOpaqueType("rutter.Quantity").WithTraits(traits.ComparerType)
)

func (o *opaque) String() string { return o.text }
func (o *opaque) Type() ref.Type { return o.kind }
func (o *opaque) Value() any     { return o.value }

func (o *opaque) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.String {
		return o.text, nil
	}
	return nil, fmt.Errorf("cannot make a Go %s of %s", t, withArticle(nameWords(o.kind.TypeName())))
}

func (o *opaque) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.StringType:
		return types.String(o.text)
	case types.TypeType:
		return o.kind
	}
	return types.NewErr("cannot make %s of %s", withArticle(nameWords(t.TypeName())), withArticle(nameWords(o.kind.TypeName())))
}

func (o *opaque) Equal(other ref.Val) ref.Val {
	p, ok := other.(*opaque)
	return types.Bool(ok && p.kind == o.kind && o.compare(o.value, p.value) == 0)
}

// Compare implements traits.Comparer, and so <, <=, > and >=.
func (o *opaque) Compare(other ref.Val) ref.Val {
	p, ok := other.(*opaque)
	if !ok || p.kind != o.kind {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Int(o.compare(o.value, p.value))
}

// ordered returns the options that let values of t, whose overload ids begin
// with prefix, be compared with operators and, as in Kubernetes, methods, and
// be converted to a string.
func ordered(prefix string, t *types.Type) []cel.EnvOption {
	var opts []cel.EnvOption
	pair := []*cel.Type{t, t}
	for id, op := range map[string]string{"less": "_<_", "less_equals": "_<=_", "greater": "_>_", "greater_equals": "_>=_"} {
		opts = append(opts, cel.Function(op, cel.Overload(id+"_"+prefix, pair, cel.BoolType)))
	}
	method := func(name string, result *cel.Type, of func(c int64) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(prefix+"_"+name, pair, result,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val {
				c := a.(*opaque).Compare(b)
				if i, ok := c.(types.Int); ok {
					return of(int64(i))
				}
				return c
			})))
	}
	return append(opts,
		method("isLessThan", cel.BoolType, func(c int64) ref.Val { return types.Bool(c < 0) }),
		method("isGreaterThan", cel.BoolType, func(c int64) ref.Val { return types.Bool(c > 0) }),
		method("compareTo", cel.IntType, func(c int64) ref.Val { return types.Int(c) }),
		cel.Function("string", cel.Overload(prefix+"_to_string", []*cel.Type{t}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return types.String(v.(*opaque).text) }))),
	)
}
