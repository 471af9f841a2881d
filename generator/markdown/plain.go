package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// plain returns the text of a node and what is inside it, without any markup;
// blocks are set apart by newlines.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	writePlain(&b, n, source)
	return strings.TrimSpace(b.String())
}

func writePlain(b *strings.Builder, root ast.Node, source []byte) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock && b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
				b.WriteByte('\n')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *codeNode:
			b.WriteString(n.text)
		case *admonition:
			b.WriteString(n.title + "\n")
		case *ast.HTMLBlock:
			return ast.WalkSkipChildren, nil
		case *east.TableCell:
			if n.PreviousSibling() != nil {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
}

// sections collects the outline and the text under each heading. A heading
// inside a quote, a list or an admonition belongs to the text around it.
func sections(st *state, doc *ast.Document, source []byte) {
	list := []Section{{Pos: st.lines.pos(0)}}
	var b strings.Builder
	flush := func() {
		list[len(list)-1].Text = strings.TrimSpace(b.String())
		b.Reset()
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			flush()
			list = append(list, Section{Level: h.Level, ID: headingID(h), Title: plain(h, source), Pos: st.pos(h)})
			continue
		}
		writePlain(&b, n, source)
	}
	flush()
	st.doc.Sections = list
}
