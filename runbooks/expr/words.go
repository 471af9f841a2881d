package expr

import (
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"rutter/runbooks/diag"
)

var (
	noOverload  = regexp.MustCompile(`(?s)^found no matching overload for '(.*)' applied to '(.*)'$`)
	undeclared  = regexp.MustCompile(`^undeclared reference to '(.*)' \(in container`)
	noSelection = regexp.MustCompile(`^type '(.*)' does not support field selection`)
	noRange     = regexp.MustCompile(`^expression of type '(.*)' cannot be range`)
	mismatch    = regexp.MustCompile(`^expected type '(.*)' but found '(.*)'`)
	badLiteral  = regexp.MustCompile(`^invalid (\w+) argument`)
)

// plainError says in plain words what the checker of CEL found.
func (e *Env) plainError(pos positions, ce *cel.Error) *Error {
	err := &Error{Offset: pos.at(ce.Location), Message: ce.Message}
	if m := noOverload.FindStringSubmatch(ce.Message); m != nil {
		err.Offset = beforeName(pos.src, err.Offset, m[1])
		err.Message, err.Hint = cannotApply(m[1], signature(m[2]))
		return err
	}
	if m := undeclared.FindStringSubmatch(ce.Message); m != nil {
		err.Offset = beforeName(pos.src, err.Offset, m[1])
		err.Message, err.Hint = "there is no function "+m[1], e.functionHint(m[1])
		if e.isMacro(m[1]) {
			err.Message, err.Hint = m[1]+"(…) is written with other arguments", ""
		}
		return err
	}
	if m := noSelection.FindStringSubmatch(ce.Message); m != nil {
		err.Message = withArticle(sigWords(m[1])) + " has no fields"
		return err
	}
	if m := noRange.FindStringSubmatch(ce.Message); m != nil {
		err.Message = "want a list or a map to go through, got " + withArticle(sigWords(m[1]))
		return err
	}
	if m := mismatch.FindStringSubmatch(ce.Message); m != nil {
		err.Message = "want " + withArticle(sigWords(m[1])) + ", got " + withArticle(sigWords(m[2]))
		return err
	}
	if m := badLiteral.FindStringSubmatch(ce.Message); m != nil {
		err.Message, err.Hint = literalError(m[1])
	}
	return err
}

// beforeName returns the offset of the function's name, where the checker
// gives that of the parenthesis after it.
func beforeName(src string, offset int, name string) int {
	before := strings.TrimRight(src[:offset], " \t\r\n")
	if last := name[strings.LastIndexByte(name, '.')+1:]; strings.HasSuffix(before, last) {
		return len(before) - len(last)
	}
	return offset
}

// isMacro reports whether the name is that of a macro and of no function.
func (e *Env) isMacro(name string) bool {
	return !e.cel.HasFunction(name) &&
		slices.ContainsFunc(e.cel.Macros(), func(m cel.Macro) bool { return m.Function() == name })
}

func literalError(function string) (message, hint string) {
	switch function {
	case "duration":
		return "this is not a duration", `write one like "1h30m", "90s" or "250ms"`
	case "timestamp":
		return "this is not a timestamp", `write one like "2026-01-31T08:00:00Z"`
	case "matches":
		return "this is not a regular expression", "regular expressions are written in RE2 syntax"
	case "ip":
		return "this is not an IP address", ""
	case "cidr":
		return "this is not a CIDR", `write one like "10.0.0.0/16"`
	}
	return "the argument of " + function + " is not valid", ""
}

// functionHint names the declared function nearest to name.
func (e *Env) functionHint(name string) string {
	var names []string
	for f := range e.cel.Functions() {
		if !strings.ContainsAny(f, "@_!-") {
			names = append(names, f)
		}
	}
	for _, m := range e.cel.Macros() {
		names = append(names, m.Function())
	}
	if near := diag.Nearest(name, names); near != "" {
		return `did you mean "` + near + `"?`
	}
	return ""
}

// operators are the written forms of CEL's operator functions.
var operators = map[string]string{
	"_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "-_": "-", "!_": "!",
	"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=",
	"_&&_": "&&", "_||_": "||", "@in": "in", "_[_]": "[…]", "_[?_]": "[?…]", "_?._": ".?", "_?_:_": "? :",
}

// sig is a call's argument types, as CEL names them.
type sig struct {
	target string // of a method
	args   []string
}

// signature parses "(int, string)" and "list(int).(string)".
func signature(s string) sig {
	var out sig
	if i := strings.Index(s, ".("); i > 0 && !strings.HasPrefix(s, "(") {
		out.target, s = s[:i], s[i+1:]
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "("), ")")
	out.args = splitTypes(s)
	return out
}

// splitTypes splits at the commas outside parentheses.
func splitTypes(s string) []string {
	var parts []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	if rest := strings.TrimSpace(s[start:]); rest != "" {
		parts = append(parts, rest)
	}
	return parts
}

// sigWords turns CEL's name of a type, such as list(int), into words.
func sigWords(s string) string {
	if inner, ok := strings.CutPrefix(s, "wrapper("); ok {
		return sigWords(strings.TrimSuffix(inner, ")")) + " or null"
	}
	open := strings.IndexByte(s, '(')
	if open < 0 || !strings.HasSuffix(s, ")") {
		return nameWords(s)
	}
	args := splitTypes(s[open+1 : len(s)-1])
	if len(args) == 0 {
		return nameWords(s[:open])
	}
	elem := sigWords(args[len(args)-1])
	switch name := s[:open]; name {
	case "list", "map":
		if elem == "anything" {
			return name
		}
		return name + " of " + elem
	case "optional_type":
		return optionalWords(elem)
	default:
		return nameWords(name)
	}
}

// cannotApply says that a function or operator does not take the arguments.
func cannotApply(function string, s sig) (message, hint string) {
	all := s.args
	if s.target != "" {
		all = append([]string{s.target}, s.args...)
	}
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = withArticle(sigWords(a))
		if strings.HasPrefix(a, "optional_type(") {
			hint = "say what to use if there is none: .orValue(…)"
		}
	}
	op, isOp := operators[function]
	switch {
	case function == "_[_]" && len(words) == 2:
		return "cannot look up " + words[1] + " in " + words[0], hint
	case function == "_?_:_" && len(words) == 3 && all[0] != "bool" && all[0] != "dyn":
		return "the condition before ? must be true or false, got " + words[0], hint
	case function == "_?_:_" && len(words) == 3:
		return "both sides of : must have one type, got " + words[1] + " and " + words[2], hint
	case isOp && len(words) == 2:
		return "cannot use " + op + " with " + words[0] + " and " + words[1], firstOf(hint, operatorHint(op, all))
	case isOp:
		return "cannot use " + op + " with " + strings.Join(words, ", "), hint
	case s.target != "" && len(s.args) == 0:
		return words[0] + " has no " + function + "()", hint
	case s.target != "":
		return words[0] + " has no " + function + "(…) that takes " + strings.Join(words[1:], ", "), hint
	case len(words) == 0:
		return function + "() needs arguments", hint
	}
	return function + "(…) does not take " + strings.Join(words, ", "), hint
}

func operatorHint(op string, args []string) string {
	if op == "+" && (args[0] == "string" || args[1] == "string") {
		return "convert the other side: string(…)"
	}
	if op == "==" || op == "!=" {
		if args[0] == "null" || args[1] == "null" {
			return "this value is never null"
		}
	}
	return ""
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
