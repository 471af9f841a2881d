package expr

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	unexpected   = regexp.MustCompile(`(?s)^Syntax error: (?:mismatched|extraneous) input '(.*)' expecting `)
	noAlternate  = regexp.MustCompile(`(?s)^Syntax error: no viable alternative at input '(.*)'`)
	missingToken = regexp.MustCompile(`(?s)^Syntax error: missing (.*) at '(.*)'`)
	unrecognised = regexp.MustCompile(`(?s)^Syntax error: token recognition error at: '(.*)'`)
	reserved     = regexp.MustCompile(`^reserved identifier: (.*)$`)
)

// plainSyntax says in plain words what the parser of CEL found.
func plainSyntax(src string, offset int, message string) string {
	if offset >= len(strings.TrimSpace(src)) && noAlternate.MatchString(message) {
		return "the expression ends too early"
	}
	if m := unexpected.FindStringSubmatch(message); m != nil {
		return unexpectedToken(m[1])
	}
	if m := noAlternate.FindStringSubmatch(message); m != nil {
		return unexpectedToken(m[1])
	}
	if m := missingToken.FindStringSubmatch(message); m != nil {
		if m[2] == "<EOF>" {
			return m[1] + " is missing at the end"
		}
		return m[1] + " is missing before " + strconv.Quote(m[2])
	}
	if m := unrecognised.FindStringSubmatch(message); m != nil {
		if strings.HasPrefix(m[1], `"`) || strings.HasPrefix(m[1], `'`) {
			return "this string is not closed, or has a wrong escape in it"
		}
		return unexpectedToken(m[1])
	}
	if m := reserved.FindStringSubmatch(message); m != nil {
		return strconv.Quote(m[1]) + " is a reserved word of CEL and cannot be a name here"
	}
	message = strings.TrimPrefix(message, "Syntax error: ")
	if strings.Contains(message, "recursion limit") || strings.Contains(message, "exceeds limit") {
		return "the expression is too long or nested too deeply"
	}
	if i := strings.IndexByte(message, '\n'); i >= 0 {
		message = message[:i]
	}
	return message
}

func unexpectedToken(tok string) string {
	switch {
	case tok == "<EOF>" || strings.HasSuffix(tok, "<EOF>"):
		return "the expression ends too early"
	case strings.TrimSpace(tok) == "=":
		return `unexpected "=": to compare, write "=="`
	}
	return "unexpected " + strconv.Quote(tok)
}
