package expr

import (
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
)

// positions turns the positions of CEL, which counts code points, into byte
// offsets.
type positions struct {
	src  string
	info *ast.SourceInfo // nil if src did not parse
}

// of returns where e starts.
func (p positions) of(e ast.Expr) int { return p.ofID(e.ID()) }

func (p positions) ofID(id int64) int {
	if p.info == nil {
		return 0
	}
	r, ok := p.info.GetOffsetRange(id)
	if !ok {
		return 0
	}
	return byteOffset(p.src, int(r.Start))
}

// at returns the offset of a line, from 1, and a column, from 0.
func (p positions) at(loc common.Location) int {
	start := 0
	for line := loc.Line(); line > 1; line-- {
		i := strings.IndexByte(p.src[start:], '\n')
		if i < 0 {
			return len(p.src)
		}
		start += i + 1
	}
	return start + byteOffset(p.src[start:], loc.Column())
}

// byteOffset returns the offset of code point n, or len(s) if s has no more.
func byteOffset(s string, n int) int {
	off := 0
	for ; n > 0 && off < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[off:])
		off += size
	}
	return off
}
