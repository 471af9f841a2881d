package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"

	"rutter/runbooks/diag"
)

// names walks a parsed expression and resolves what it names. The checker of
// CEL does so too, but says of inputs.clusterId only that "inputs" is
// undeclared.
type names struct {
	env     *Env
	pos     positions
	scope   []string // variables of the enclosing macros, innermost last
	refs    []Ref
	errs    Errors
	missing []string // undeclared names

	// unexpanded is above 0 within a macro that was not recognised, whose
	// variables are therefore none.
	unexpanded int
	reported   map[int64]bool // the expressions the checker need not report
}

// walk visits e and what is below it.
func (n *names) walk(e ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind:
		n.chain(e)
	case ast.SelectKind:
		n.selection(e)
	case ast.CallKind:
		n.call(e)
	case ast.ListKind:
		n.walkAll(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n.walk(entry.AsMapEntry().Key())
			n.walk(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			n.walk(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		n.comprehension(e.AsComprehension())
	}
}

func (n *names) walkAll(es []ast.Expr) {
	for _, e := range es {
		n.walk(e)
	}
}

func (n *names) selection(e ast.Expr) {
	sel := e.AsSelect()
	if sel.IsTestOnly() {
		n.presence(e)
		return
	}
	if _, _, ok := dotted(e); ok {
		n.chain(e)
		return
	}
	n.walk(sel.Operand())
}

// presence handles has(a.b.c), where a.b must be a value.
func (n *names) presence(e ast.Expr) {
	sel := e.AsSelect()
	name, root, ok := dotted(sel.Operand())
	full := name + "." + sel.FieldName()
	if _, declared := n.env.vars[full]; ok && declared && !n.local(name) {
		n.errs = append(n.errs, &Error{
			Offset:  n.pos.of(root),
			Message: "has(" + full + ") is always true: " + full + " is a variable, not a field",
			Hint:    "compare it: " + full + " != null",
		})
		n.missing = append(n.missing, name)
		return
	}
	if ok && !n.local(name) && n.env.longest(name) == "" && n.env.isPrefix(name) {
		n.report(full, root)
		n.missing = append(n.missing, name)
		return
	}
	n.walk(sel.Operand())
}

func (n *names) call(e ast.Expr) {
	c := e.AsCall()
	if c.IsMemberFunction() && !n.isFunction(c) {
		n.target(e)
	}
	if n.env.isMacro(c.FunctionName()) {
		n.unexpanded++
		defer func() { n.unexpanded-- }()
	}
	n.walkAll(c.Args())
}

// target walks what a method is called on.
func (n *names) target(e ast.Expr) {
	c := e.AsCall()
	name, root, ok := dotted(c.Target())
	full := name + "." + c.FunctionName()
	if _, declared := n.env.vars[full]; ok && declared && !n.local(name) && n.env.longest(name) == "" {
		n.errs = append(n.errs, &Error{
			Offset:  n.pos.of(root),
			Message: full + " is a variable, not a function",
			Hint:    "write " + full + " without ()",
		})
		n.missing = append(n.missing, name)
		n.reported[e.ID()] = true
		return
	}
	before := len(n.missing)
	n.walk(c.Target())
	if ok && len(n.missing) > before {
		n.reported[e.ID()] = true
	}
}

// isFunction reports whether what looks like a method, base64.encode(x), is
// a function with a dotted name.
func (n *names) isFunction(c ast.CallExpr) bool {
	name, _, ok := dotted(c.Target())
	return ok && !n.local(name) && n.env.cel.HasFunction(name+"."+c.FunctionName())
}

func (n *names) comprehension(c ast.ComprehensionExpr) {
	n.walk(c.IterRange())
	n.walk(c.AccuInit())
	outer := len(n.scope)
	n.scope = append(n.scope, c.IterVar(), c.AccuVar())
	if c.HasIterVar2() {
		n.scope = append(n.scope, c.IterVar2())
	}
	n.walk(c.LoopCondition())
	n.walk(c.LoopStep())
	n.scope = append(n.scope[:outer], c.AccuVar())
	n.walk(c.Result())
	n.scope = n.scope[:outer]
}

// local reports whether the first part of name is a macro's variable.
func (n *names) local(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return slices.Contains(n.scope, first)
}

// chain resolves a.b.c, of which a leading part is a variable.
func (n *names) chain(e ast.Expr) {
	name, root, _ := dotted(e)
	if n.local(name) {
		return
	}
	name = strings.TrimPrefix(name, ".")
	if v := n.env.longest(name); v != "" {
		n.refs = append(n.refs, Ref{Name: v, Offset: n.pos.of(root)})
		return
	}
	if _, ok := n.env.cel.CELTypeProvider().FindIdent(name); ok {
		return
	}
	if n.unexpanded == 0 {
		n.report(name, root)
	}
	n.missing = append(n.missing, name)
}

// report adds the error that name is not declared.
func (n *names) report(name string, root ast.Expr) {
	err := &Error{Offset: n.pos.of(root), Ref: name}
	prefix, rest := "", name
	for { // the longest part that begins a declared name
		first, more, found := strings.Cut(rest, ".")
		next := strings.TrimPrefix(prefix+"."+first, ".")
		if !n.env.isPrefix(next) {
			break
		}
		prefix, rest = next, more
		if !found {
			break
		}
	}
	field, _, _ := strings.Cut(rest, ".")
	switch {
	case rest == "":
		err.Message = prefix + " is not a value by itself, only what is below it"
		err.Hint = knownHint(n.env.known(prefix))
	case prefix == "":
		err.Message = "there is nothing named " + field
		err.Hint = n.env.rootHint(name)
	default:
		err.Message = prefix + " has no " + field
		err.Hint = n.env.fieldHint(prefix, rest)
	}
	n.errs = append(n.errs, err)
}

// fieldHint names the declared variable below prefix nearest to rest, of which
// only the last parts may be fields of a value, or else lists them.
func (e *Env) fieldHint(prefix, rest string) string {
	var below []string
	for _, name := range e.known(prefix) {
		below = append(below, strings.TrimPrefix(name, prefix+"."))
	}
	for {
		if near := diag.Nearest(rest, below); near != "" {
			return `did you mean "` + prefix + "." + near + `"?`
		}
		i := strings.LastIndexByte(rest, '.')
		if i < 0 {
			return knownHint(e.known(prefix))
		}
		rest = rest[:i]
	}
}

// rootHint says what name, which begins like no declared one, may have meant.
func (e *Env) rootHint(name string) string {
	var roots []string
	for v := range e.vars {
		root, _, _ := strings.Cut(v, ".")
		roots = append(roots, root)
	}
	slices.Sort(roots)
	roots = slices.Compact(roots)
	first, rest, _ := strings.Cut(name, ".")
	if near := diag.Nearest(first, roots); near != "" {
		return `did you mean "` + strings.TrimSuffix(near+"."+rest, ".") + `"?`
	}
	return knownHint(roots)
}

// longest returns the longest leading part of name that is declared, or "".
func (e *Env) longest(name string) string {
	for {
		if _, ok := e.vars[name]; ok {
			return name
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return ""
		}
		name = name[:i]
	}
}

func knownHint(names []string) string {
	if len(names) == 0 || len(names) > 24 {
		return ""
	}
	return "known here: " + strings.Join(names, ", ")
}

// dotted returns a.b.c and the expression for a, if e is nothing but that.
func dotted(e ast.Expr) (name string, root ast.Expr, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), e, true
	case ast.SelectKind:
		if e.AsSelect().IsTestOnly() {
			return "", nil, false
		}
		name, root, ok = dotted(e.AsSelect().Operand())
		return name + "." + e.AsSelect().FieldName(), root, ok
	}
	return "", nil, false
}
