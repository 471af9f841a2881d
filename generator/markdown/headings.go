package markdown

import (
	"fmt"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// headings gives each heading its level on the page and its anchor: the one
// written after it as {#id}, else GitHub's.
func headings(st *state, doc *ast.Document, source []byte) {
	each(doc, func(h *ast.Heading) {
		h.Level = min(max(h.Level+st.opts.Shift, 1), 6)
		title := plain(h, source)
		if title == "" {
			st.diags.Addf(st.pos(h), "heading without text")
		}
		if id, ok := h.AttributeString("id"); ok {
			if b, ok := id.([]byte); ok && !st.opts.IDs.Take(string(b)) {
				st.diags.Addf(st.pos(h), "duplicate anchor #%s", b)
			}
			return
		}
		h.SetAttributeString("id", []byte(st.opts.IDs.New(title)))
	})
}

func headingID(h *ast.Heading) string {
	if id, ok := h.AttributeString("id"); ok {
		if b, ok := id.([]byte); ok {
			return string(b)
		}
	}
	return ""
}

func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	h, ok := n.(*ast.Heading)
	if !ok {
		return ast.WalkContinue, nil
	}
	id := headingID(h)
	if entering {
		fmt.Fprintf(w, "<h%d%s>", h.Level, attr("id", id))
		return ast.WalkContinue, nil
	}
	fmt.Fprintf(w, "<a class=\"anchor\"%s aria-label=\"Link to this section\">#</a></h%d>\n", attr("href", "#"+fragment(id)), h.Level)
	return ast.WalkContinue, nil
}

// each calls f for every node of type T, in document order, however f changes
// the tree.
func each[T ast.Node](root ast.Node, f func(T)) {
	var found []T
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(T); ok && entering {
			found = append(found, t)
		}
		return ast.WalkContinue, nil
	})
	for _, t := range found {
		f(t)
	}
}
