package markdown

import (
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// tables aligns cells by class: the pages allow no style attribute.
func tables(_ *state, doc *ast.Document, _ []byte) {
	each(doc, func(c *east.TableCell) {
		switch c.Alignment {
		case east.AlignCenter:
			c.SetAttributeString("class", []byte("center"))
		case east.AlignRight:
			c.SetAttributeString("class", []byte("right"))
		}
	})
}
