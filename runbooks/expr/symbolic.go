package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// Marker says how Symbolic shows what has no value yet.
type Marker struct {
	Ref     func(name string) string // a variable, by its declared name
	Formula func(src string) string  // any other expression, by its source
}

// Symbolic returns the text of the template with every variable marked. Of
// variables, string literals, + on strings and string(…) it makes one text;
// any other expression is one formula.
func (t *Template) Symbolic(m Marker) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.Program == nil {
			b.WriteString(p.Text)
		} else {
			b.WriteString(p.Program.Symbolic(m))
		}
	}
	return b.String()
}

// Symbolic returns the text of the program as [Template.Symbolic] does.
func (p *Program) Symbolic(m Marker) string {
	parts, ok := p.fold(p.checked.NativeRep().Expr())
	if !ok {
		return m.Formula(p.src)
	}
	var b strings.Builder
	for _, part := range parts {
		if part.ref != "" {
			b.WriteString(m.Ref(part.ref))
		} else {
			b.WriteString(part.text)
		}
	}
	return b.String()
}

// Foldable reports whether Symbolic needs no formula.
func (p *Program) Foldable() bool {
	_, ok := p.fold(p.checked.NativeRep().Expr())
	return ok
}

// folded is a piece of a symbolic text: literal text or a variable.
type folded struct{ text, ref string }

func (p *Program) fold(e ast.Expr) ([]folded, bool) {
	if ref, ok := p.variable(e); ok {
		return []folded{{ref: ref}}, true
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return foldLiteral(e)
	case ast.CallKind:
		return p.foldCall(e)
	}
	return nil, false
}

func foldLiteral(e ast.Expr) ([]folded, bool) {
	switch v := e.AsLiteral().(type) {
	case types.String, types.Int, types.Bool, types.Double:
		text, err := Format(v.Value())
		return []folded{{text: text}}, err == nil
	}
	return nil, false
}

func (p *Program) foldCall(e ast.Expr) ([]folded, bool) {
	c := e.AsCall()
	args := c.Args()
	switch {
	case c.FunctionName() == "string" && len(args) == 1 && !c.IsMemberFunction():
		return p.fold(args[0])
	case c.FunctionName() == "_+_" && len(args) == 2 && p.checked.NativeRep().GetType(e.ID()).IsExactType(cel.StringType):
		left, ok := p.fold(args[0])
		if !ok {
			return nil, false
		}
		right, ok := p.fold(args[1])
		return append(left, right...), ok
	}
	return nil, false
}

// variable returns the declared name if e is a variable and nothing else.
func (p *Program) variable(e ast.Expr) (string, bool) {
	name, _, ok := dotted(e)
	name = strings.TrimPrefix(name, ".")
	_, declared := p.env.vars[name]
	return name, ok && declared
}
