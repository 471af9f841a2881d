package expr

import (
	"errors"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// Bounds on one evaluation. A unit of cost is about one elementary operation.
const (
	maxCost        = 10_000_000
	interruptEvery = 256
)

// Compile checks src and prepares it for evaluation. The result must fit want;
// with Dyn anything does. Errors are [Errors].
//
// An int fits where a number is wanted. What is known only when evaluated is
// checked then.
func (e *Env) Compile(src string, want Type) (*Program, error) {
	if strings.TrimSpace(src) == "" {
		return nil, Errors{{Message: "the expression is empty"}}
	}
	parsed, iss := e.cel.Parse(src)
	if iss.Err() != nil {
		return nil, syntaxErrors(src, iss)
	}
	pos := positions{src: src, info: parsed.NativeRep().SourceInfo()}
	n := &names{env: e, pos: pos, reported: map[int64]bool{}}
	n.walk(parsed.NativeRep().Expr())
	env := e.cel
	if len(n.missing) > 0 {
		var err error
		if env, err = e.pretend(n.missing); err != nil {
			return nil, n.errs.err()
		}
	}
	checked, iss := env.Check(parsed)
	for _, ce := range iss.Errors() {
		if !n.reported[ce.ExprID] {
			n.errs = append(n.errs, e.plainError(pos, ce))
		}
	}
	if iss.Err() == nil {
		if err := fits(checked.OutputType(), want); err != nil {
			n.errs = append(n.errs, err)
		}
	}
	if err := n.errs.err(); err != nil {
		return nil, err
	}
	prg, err := env.Program(checked,
		cel.EvalOptions(cel.OptPartialEval, cel.OptOptimize),
		cel.CostLimit(maxCost),
		cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, Errors{{Message: plainRuntime(err.Error())}}
	}
	return &Program{env: e, src: src, want: want, checked: checked, prg: prg, refs: sortRefs(n.refs)}, nil
}

// pretend declares the missing names, so that checking finds what else is
// wrong.
func (e *Env) pretend(missing []string) (*cel.Env, error) {
	vars := make([]Var, len(missing))
	for i, name := range missing {
		vars[i] = Var{Name: name, Type: Dyn}
	}
	env, err := e.With(vars...)
	if err != nil {
		return nil, err
	}
	return env.cel, nil
}

// fits returns an error unless a value of type got may be used as want.
func fits(got *cel.Type, want Type) *Error {
	w := want.cel()
	if w.Kind() == cel.DynKind || w.IsAssignableType(got) || got.Kind() == cel.DynKind {
		return nil
	}
	switch {
	case w.Kind() == cel.DoubleKind && (got.Kind() == cel.IntKind || got.Kind() == cel.UintKind),
		w.Kind() == cel.IntKind && got.Kind() == cel.UintKind,
		w.Kind() == cel.StringKind && prints(got):
		return nil
	}
	if u, ok := unwrapped(w); ok && fits(got, Type{u}) == nil {
		return nil
	}
	return &Error{
		Message: "want " + want.String() + ", got " + Type{got}.String(),
		Hint:    fitHint(got, w),
	}
}

// prints reports whether values of the type leave the package as strings.
func prints(t *cel.Type) bool {
	for _, o := range []*cel.Type{ext.IPType, ext.CIDRType, semverType, quantityType} {
		if t.IsExactType(o) {
			return true
		}
	}
	return false
}

func fitHint(got, want *cel.Type) string {
	switch {
	case isOptional(got):
		return "say what to use if there is none: end it with .orValue(…)"
	case want.Kind() == cel.StringKind:
		switch got.Kind() {
		case cel.IntKind, cel.UintKind, cel.DoubleKind, cel.BoolKind, cel.DurationKind, cel.TimestampKind, cel.BytesKind:
			return "convert it: string(…)"
		case cel.ListKind:
			return `join the list: (…).join(", ")`
		}
	case got.Kind() == cel.StringKind:
		switch want.Kind() {
		case cel.IntKind:
			return "convert it: int(…)"
		case cel.DoubleKind:
			return "convert it: double(…)"
		case cel.DurationKind:
			return "convert it: duration(…)"
		case cel.TimestampKind:
			return "convert it: timestamp(…)"
		case cel.BoolKind:
			return `compare it: … == "…"`
		}
	}
	return ""
}

// syntaxErrors returns the first problem only: the others follow from it.
func syntaxErrors(src string, iss *cel.Issues) error {
	pos := positions{src: src}
	var first *Error
	for _, ce := range iss.Errors() {
		at := pos.at(ce.Location)
		err := &Error{Offset: at, Message: plainSyntax(src, at, ce.Message)}
		if first == nil || err.Offset < first.Offset {
			first = err
		}
	}
	if first == nil {
		first = &Error{Message: errors.Unwrap(iss.Err()).Error()}
	}
	return Errors{first}
}
