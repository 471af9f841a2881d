package expr

import (
	"strings"
	"unicode/utf8"
)

// piece is a stretch of a template: literal text, or the source of an
// expression and where that starts.
type piece struct {
	text   string
	isExpr bool
	offset int
}

// scan splits src at its ${…}, of which $${ is none but stands for ${.
func scan(src string) ([]piece, *Error) {
	var pieces []piece
	var text strings.Builder
	start := 0
	flush := func() {
		if text.Len() > 0 {
			pieces = append(pieces, piece{text: text.String(), offset: start})
			text.Reset()
		}
	}
	for i := 0; i < len(src); {
		rest := src[i:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			text.WriteString("${")
			i += len("$${")
		case strings.HasPrefix(rest, "${"):
			end, ok := exprEnd(src, i+len("${"))
			if !ok {
				return nil, &Error{
					Offset:  i,
					Message: "this ${ is never closed",
					Hint:    "close it with }, or write $${ for a literal ${",
				}
			}
			flush()
			pieces = append(pieces, piece{text: src[i+len("${") : end], isExpr: true, offset: i + len("${")})
			i = end + 1
			start = i
		default:
			text.WriteByte(src[i])
			i++
		}
	}
	flush()
	return pieces, nil
}

// exprEnd returns the offset of the } that ends the expression starting at i,
// passing over braces within it, strings and comments.
func exprEnd(src string, i int) (int, bool) {
	depth := 0
	for i < len(src) {
		switch c := src[i]; {
		case c == '"' || c == '\'':
			i = stringEnd(src, i, isRaw(src, i))
			continue
		case strings.HasPrefix(src[i:], "//"):
			if n := strings.IndexByte(src[i:], '\n'); n >= 0 {
				i += n
			}
		case c == '`':
			if n := strings.IndexByte(src[i+1:], '`'); n >= 0 {
				i += n + 1
			}
		case c == '{':
			depth++
		case c == '}':
			if depth == 0 {
				return i, true
			}
			depth--
		}
		i++
	}
	return 0, false
}

// isRaw reports whether the quote at i follows a prefix, as in r"", that makes
// backslashes plain characters.
func isRaw(src string, i int) bool {
	start := i
	for start > 0 && strings.IndexByte("rRbB", src[start-1]) >= 0 {
		start--
	}
	if start > 0 && isWordByte(src[start-1]) {
		return false
	}
	return strings.ContainsAny(src[start:i], "rR")
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// stringEnd returns the offset after the string whose opening quote is at i.
// One that is not closed on its line ends after its quote, so that the parser
// of CEL, not the scan, reports it.
func stringEnd(src string, i int, raw bool) int {
	quote := src[i : i+1]
	long := strings.HasPrefix(src[i:], strings.Repeat(quote, 3))
	if long {
		quote = src[i : i+3]
	}
	for j := i + len(quote); j < len(src); j++ {
		switch {
		case strings.HasPrefix(src[j:], quote):
			return j + len(quote)
		case src[j] == '\\' && !raw:
			j++
		case src[j] == '\n' && !long:
			return i + 1
		}
	}
	return i + len(quote)
}
