package expr

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

var (
	noKey       = regexp.MustCompile(`(?s)^no such key: (.*)$`)
	noIndex     = regexp.MustCompile(`^index out of bounds: (.*)$`)
	noSuchCall  = regexp.MustCompile(`^no such overload(?:: ([^ ]+).*)?$`)
	convertFrom = regexp.MustCompile(`^type conversion error from '?([a-z_.A-Z]+)'? to '?([a-z_.A-Z]+)'?`)
)

// runtimeError says in plain words why an evaluation failed.
func (p *Program) runtimeError(ctx context.Context, err error) error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return fmt.Errorf("%s: stopped because it takes too much work (more than %d operations)", excerpt(p.src), maxCost)
	}
	if errors.Is(err, interpreter.InterruptError{}) || ctx.Err() != nil {
		return fmt.Errorf("%s: stopped: %w", excerpt(p.src), context.Cause(ctx))
	}
	var ce *types.Err
	if !errors.As(err, &ce) {
		return fmt.Errorf("%s: %s", excerpt(p.src), plainRuntime(err.Error()))
	}
	text := ce.Error()
	if m := noKey.FindStringSubmatch(text); m != nil {
		if where := p.holder(ce.NodeID(), m[1]); where != "" {
			return fmt.Errorf("no %q in %s", m[1], where)
		}
	}
	return fmt.Errorf("%s: %s", excerpt(p.src), plainRuntime(text))
}

// plainRuntime rewords one of CEL's messages.
func plainRuntime(text string) string {
	if m := noKey.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("there is no %q", m[1])
	}
	if m := noIndex.FindStringSubmatch(text); m != nil {
		return "the list has no item " + m[1]
	}
	if m := noSuchCall.FindStringSubmatch(text); m != nil {
		if op, ok := operators[m[1]]; ok {
			return "cannot use " + op + " with values of these types"
		}
		if name, _, _ := strings.Cut(m[1], "("); name != "" && !strings.ContainsAny(name, "_@") {
			return name + "(…) does not take values of these types"
		}
		return "the values have types that do not fit"
	}
	if m := convertFrom.FindStringSubmatch(text); m != nil {
		return "cannot make " + withArticle(nameWords(m[2])) + " of " + withArticle(nameWords(m[1]))
	}
	return text
}

// holder returns the text of what should have had the key, if the node that
// failed is or contains exactly one selection of it.
func (p *Program) holder(id int64, key string) string {
	rep := p.checked.NativeRep()
	matches := func(e ast.NavigableExpr) bool { return selects(e, key) }
	found := ast.MatchDescendants(ast.NavigateAST(rep), matches)
	for _, e := range found {
		if e.ID() == id && len(found) > 1 {
			found = []ast.NavigableExpr{e}
			break
		}
	}
	if len(found) != 1 {
		return ""
	}
	text, err := cel.ExprToString(operand(found[0]), rep.SourceInfo())
	if err != nil {
		return ""
	}
	return excerpt(text)
}

// selects reports whether e is x.key or x["key"].
func selects(e ast.Expr, key string) bool {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName() == key
	case ast.CallKind:
		c := e.AsCall()
		return c.FunctionName() == "_[_]" && len(c.Args()) == 2 &&
			c.Args()[1].Kind() == ast.LiteralKind && c.Args()[1].AsLiteral().Equal(types.String(key)) == types.True
	}
	return false
}

func operand(e ast.Expr) ast.Expr {
	if e.Kind() == ast.SelectKind {
		return e.AsSelect().Operand()
	}
	return e.AsCall().Args()[0]
}
