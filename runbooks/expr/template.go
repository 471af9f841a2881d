package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Template is a string that may hold ${…} with expressions. It is immutable
// and safe for concurrent use.
//
// A template that is nothing but one ${…} has that expression's value, of
// whatever type; any other is a string with the values written into it. A
// literal ${ is written $${.
type Template struct {
	src   string
	want  Type
	parts []Part
	lit   any // the value, if there are no programs
}

// Part is one part of a Template: text or an expression.
type Part struct {
	Text    string   // for a Part without Program
	Program *Program // nil for text
	Offset  int      // of the text or expression in the template, in bytes
}

// Template checks src. Its value must fit want, as with [Env.Compile]; text is
// read as an int, a number, true or false, a duration or a timestamp where
// that is wanted. Errors are [Errors] with offsets in src.
func (e *Env) Template(src string, want Type) (*Template, error) {
	pieces, scanErr := scan(src)
	if scanErr != nil {
		return nil, Errors{scanErr}
	}
	t := &Template{src: src, want: want}
	whole := len(pieces) == 1 && pieces[0].isExpr
	var errs Errors
	for _, p := range pieces {
		if !p.isExpr {
			t.parts = append(t.parts, Part{Text: p.text, Offset: p.offset})
			continue
		}
		prg, err := e.part(p, want, whole)
		if err != nil {
			errs = append(errs, shift(err, p.offset)...)
			continue
		}
		t.parts = append(t.parts, Part{Program: prg, Offset: p.offset})
	}
	if !whole {
		if err := t.textFits(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errs.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// part compiles one ${…}.
func (e *Env) part(p piece, want Type, whole bool) (*Program, error) {
	if strings.TrimSpace(p.text) == "" {
		return nil, Errors{{Message: "there is nothing between ${ and }"}}
	}
	if !whole {
		return e.Compile(p.text, Dyn)
	}
	prg, err := e.Compile(p.text, want)
	if err == nil || !readsText(want) {
		return prg, err
	}
	// A string will do where text would: it is read when evaluated.
	if s, asString := e.Compile(p.text, String); asString == nil && s.Type().Equal(String) {
		return s, nil
	}
	return nil, err
}

// readsText reports whether a string stands for a value of the type, because
// YAML has no other way to write one.
func readsText(want Type) bool {
	return want.base() == baseDuration || want.base() == baseTimestamp
}

// textFits reads a template without expressions, and refuses one with
// expressions and text where no text can stand.
func (t *Template) textFits() *Error {
	switch t.want.base() {
	case baseList, baseMap:
		return &Error{Message: "want " + t.want.String() + ", got text"}
	}
	if !t.IsLiteral() {
		return nil
	}
	v, err := readText(t.Literal(), t.want)
	if err != nil {
		return &Error{Message: err.Error()}
	}
	t.lit = v
	return nil
}

// shift returns err with its offsets moved by n.
func shift(err error, n int) Errors {
	var es Errors
	if !errors.As(err, &es) {
		return Errors{{Offset: n, Message: err.Error()}}
	}
	for _, e := range es {
		e.Offset += n
	}
	return es
}

// Source returns the template as it was given to [Env.Template].
func (t *Template) Source() string { return t.src }

// Parts returns the parts in order. The caller must not modify the result.
func (t *Template) Parts() []Part { return t.parts }

// IsLiteral reports whether the template has no expression.
func (t *Template) IsLiteral() bool {
	return !slices.ContainsFunc(t.parts, func(p Part) bool { return p.Program != nil })
}

// Literal returns the text of a template without expressions, with $${ made
// ${. For others it is "".
func (t *Template) Literal() string {
	if !t.IsLiteral() || len(t.parts) == 0 {
		return ""
	}
	return t.parts[0].Text
}

// Whole returns the program of a template that is nothing but one ${…}, or nil.
func (t *Template) Whole() *Program {
	if len(t.parts) == 1 {
		return t.parts[0].Program
	}
	return nil
}

// Type returns the type of the value.
func (t *Template) Type() Type {
	if t.want.base() != baseOther {
		if _, nullable := unwrapped(t.want.cel()); !nullable {
			return t.want
		}
	}
	if p := t.Whole(); p != nil {
		return p.Type()
	}
	return String
}

// Refs returns the variables that the template uses, with offsets in its
// source.
func (t *Template) Refs() []Ref {
	var refs []Ref
	for _, p := range t.parts {
		if p.Program == nil {
			continue
		}
		for _, r := range p.Program.Refs() {
			refs = append(refs, Ref{Name: r.Name, Offset: r.Offset + p.Offset})
		}
	}
	return refs
}

// Eval returns the value for the given variables. It is unknown if any part
// is.
func (t *Template) Eval(ctx context.Context, vars Vars) (Value, error) {
	if t.IsLiteral() {
		if t.lit == nil {
			return Value{V: t.Literal()}, nil
		}
		return Value{V: t.lit}, nil
	}
	if p := t.Whole(); p != nil {
		v, err := p.Eval(ctx, vars)
		if text, ok := v.V.(string); ok && readsText(t.want) {
			v.V, err = readText(text, t.want)
		}
		return v, err
	}
	var b strings.Builder
	var unknowns []string
	for _, p := range t.parts {
		if p.Program == nil {
			b.WriteString(p.Text)
			continue
		}
		v, err := p.Program.Eval(ctx, vars)
		if err != nil {
			return Value{}, err
		}
		if v.IsUnknown() {
			unknowns = append(unknowns, v.Unknown...)
			continue
		}
		text, err := Format(v.V)
		if err != nil {
			return Value{}, fmt.Errorf("%s %w", excerpt(p.Program.Source()), err)
		}
		b.WriteString(text)
	}
	if len(unknowns) > 0 {
		slices.Sort(unknowns)
		return Value{Unknown: slices.Compact(unknowns)}, nil
	}
	v, err := readText(b.String(), t.want)
	return Value{V: v}, err
}
