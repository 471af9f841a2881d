package expr

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

// Ref is one use of a variable.
type Ref struct {
	Name   string // as declared
	Offset int    // in bytes, in the source of the Program or Template
}

// sortRefs orders refs by offset and drops the repeats that macros make.
func sortRefs(refs []Ref) []Ref {
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(refs)
}

// Program is a compiled expression. It is immutable and safe for concurrent
// use.
type Program struct {
	env     *Env
	src     string
	want    Type
	checked *cel.Ast
	prg     cel.Program
	refs    []Ref
}

// Source returns the expression as it was given to [Env.Compile].
func (p *Program) Source() string { return p.src }

// Type returns the type of the result, as precisely as it is known: that of
// the expression, or else the one that was wanted. It suits a variable that is
// to hold the result: String for what leaves the package as a string, such as
// an IP address, but Timestamp for a timestamp.
func (p *Program) Type() Type {
	t := p.checked.OutputType()
	switch {
	case t.Kind() == cel.DynKind,
		t.Kind() == cel.IntKind && p.want.cel().Kind() == cel.DoubleKind:
		return p.want
	}
	return Type{plainType(t)}
}

// plainType returns the type of the plain value that native makes of one of t.
func plainType(t *cel.Type) *cel.Type {
	switch {
	case prints(t) || t.Kind() == cel.TypeKind:
		return cel.StringType
	case t.Kind() == cel.UintKind:
		return cel.IntType
	case t.Kind() == cel.ListKind:
		return cel.ListType(plainType(t.Parameters()[0]))
	case t.Kind() == cel.MapKind:
		return cel.MapType(cel.StringType, plainType(t.Parameters()[1]))
	case t.Kind() == cel.OpaqueKind || t.Kind() == cel.TypeParamKind || t.Kind() == cel.StructKind:
		return cel.DynType
	}
	return t
}

// Refs returns the variables that the expression uses, in the order in which
// it does. The caller must not modify the result.
func (p *Program) Refs() []Ref { return p.refs }

// Eval returns the result for the given variables, of which every one that
// the expression uses must be there, be it as [Unknown].
func (p *Program) Eval(ctx context.Context, vars Vars) (Value, error) {
	act, err := p.activation(vars)
	if err != nil {
		return Value{}, err
	}
	out, _, err := p.prg.ContextEval(ctx, act)
	if err != nil {
		return Value{}, p.runtimeError(ctx, err)
	}
	if u, ok := out.(*types.Unknown); ok {
		return Value{Unknown: unknownNames(u)}, nil
	}
	v, err := native(out, 0)
	if err != nil {
		return Value{}, err
	}
	if v, err = conform(v, p.want); err != nil {
		return Value{}, fmt.Errorf("%s: %w", excerpt(p.src), err)
	}
	return Value{V: v}, nil
}

// activation holds the variables of one evaluation.
type activation struct {
	values   map[string]any
	patterns []*interpreter.AttributePattern
}

func (a *activation) ResolveName(name string) (any, bool) {
	v, ok := a.values[strings.TrimPrefix(name, ".")]
	return v, ok
}

func (a *activation) Parent() interpreter.Activation { return nil }

func (a *activation) AsPartialActivation() (interpreter.PartialActivation, bool) { return a, true }

func (a *activation) UnknownAttributePatterns() []*interpreter.AttributePattern { return a.patterns }

func (p *Program) activation(vars Vars) (*activation, error) {
	act := &activation{values: make(map[string]any, len(p.refs))}
	for _, r := range p.refs {
		if _, done := act.values[r.Name]; done {
			continue
		}
		v, ok := vars[r.Name]
		if !ok {
			return nil, fmt.Errorf("%s was declared but has no value", r.Name)
		}
		if v == Unknown {
			act.values[r.Name] = nil
			act.patterns = append(act.patterns, cel.AttributePattern(r.Name))
			continue
		}
		a, err := admit(v, p.env.vars[r.Name].Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		act.values[r.Name] = a
	}
	return act, nil
}

func unknownNames(u *types.Unknown) []string {
	var names []string
	for _, id := range u.IDs() {
		trails, _ := u.GetAttributeTrails(id)
		for _, t := range trails {
			names = append(names, strings.TrimPrefix(t.Variable(), "."))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// excerpt shortens an expression for a message.
func excerpt(src string) string {
	src = strings.Join(strings.Fields(src), " ")
	if r := []rune(src); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return src
}
