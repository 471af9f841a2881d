package expr

import (
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// Path is a plain walk from one variable to a value inside it.
type Path struct {
	Root    string // the variable's declared name
	Steps   []PathStep
	Default *Program // what orValue falls back to, foldable; nil without one
}

// PathStep is a key of a map or an index of a list.
type PathStep struct {
	Key     string
	Index   int
	IsIndex bool
}

// Path returns the expression as a path. It is ok if the expression is a
// variable followed by fields, keys and indexes, optional (.?, [?…]) or not,
// and perhaps .orValue of what [Program.Symbolic] needs no formula for.
func (p *Program) Path() (path Path, ok bool) {
	e := p.checked.NativeRep().Expr()
	if c, isCall := callOf(e, "orValue"); isCall && c.IsMemberFunction() && len(c.Args()) == 1 {
		if path.Default, ok = p.sub(c.Args()[0]); !ok || !path.Default.Foldable() {
			return Path{}, false
		}
		e = c.Target()
	}
	path.Root, path.Steps, ok = p.steps(e)
	if !ok {
		return Path{}, false
	}
	return path, true
}

// steps returns the variable at the start of e and the way from there.
func (p *Program) steps(e ast.Expr) (root string, steps []PathStep, ok bool) {
	if name, ok := p.variable(e); ok {
		return name, nil, true
	}
	from, step, ok := pathStep(e)
	if !ok {
		return "", nil, false
	}
	root, steps, ok = p.steps(from)
	return root, append(steps, step), ok
}

// pathStep takes the last step off e.
func pathStep(e ast.Expr) (from ast.Expr, step PathStep, ok bool) {
	if e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly() {
		return e.AsSelect().Operand(), PathStep{Key: e.AsSelect().FieldName()}, true
	}
	for _, function := range []string{"_[_]", "_[?_]", "_?._"} {
		c, isCall := callOf(e, function)
		if !isCall || len(c.Args()) != 2 || c.Args()[1].Kind() != ast.LiteralKind {
			continue
		}
		switch v := c.Args()[1].AsLiteral().(type) {
		case types.String:
			return c.Args()[0], PathStep{Key: string(v)}, true
		case types.Int:
			return c.Args()[0], PathStep{Index: int(v), IsIndex: true}, v >= 0
		}
	}
	return nil, PathStep{}, false
}

func callOf(e ast.Expr, function string) (ast.CallExpr, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != function {
		return nil, false
	}
	return e.AsCall(), true
}

// sub compiles a part of p as a program of its own.
func (p *Program) sub(e ast.Expr) (*Program, bool) {
	src, err := cel.ExprToString(e, p.checked.NativeRep().SourceInfo())
	if err != nil {
		return nil, false
	}
	sub, err := p.env.Compile(src, Dyn)
	return sub, err == nil
}

// JSONPath returns the steps as kubectl's -o jsonpath takes them, in braces:
// {.status.tenantNamespace.local}, {.metadata.labels.liqo\.io/x}. The whole
// object is {$}. A key with a backslash, which no Kubernetes object has, cannot
// be said.
func (p Path) JSONPath() string {
	var b strings.Builder
	for _, s := range p.Steps {
		if s.IsIndex {
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		} else {
			b.WriteString("." + escapeKey(s.Key))
		}
	}
	if b.Len() == 0 {
		return "{$}"
	}
	return "{" + b.String() + "}"
}

// escapeKey puts a backslash before what ends a field's name in a jsonpath.
func escapeKey(key string) string {
	var b strings.Builder
	for _, r := range key {
		if strings.ContainsRune(`.,[]{}|()$@ '"`+"\t\r\n", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
