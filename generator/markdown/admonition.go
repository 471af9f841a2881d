package markdown

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"

	"rutter/runbooks/diag"
)

// admonition is a block set apart from the text: GitHub's alerts and MyST's
// admonitions both become one.
type admonition struct {
	ast.BaseBlock
	style string // note, tip, important, warning or caution
	title string
}

var kindAdmonition = ast.NewNodeKind("Admonition")

// Kind implements ast.Node.
func (a *admonition) Kind() ast.NodeKind { return kindAdmonition }

// Dump implements ast.Node.
func (a *admonition) Dump(source []byte, level int) {
	ast.DumpHelper(a, source, level, map[string]string{"style": a.style, "title": a.title}, nil)
}

// admonitionKinds maps the names of MyST to one of five styles and a title.
var admonitionKinds = map[string][2]string{
	"note":       {"note", "Note"},
	"seealso":    {"note", "See also"},
	"admonition": {"note", ""},
	"tip":        {"tip", "Tip"},
	"hint":       {"tip", "Hint"},
	"important":  {"important", "Important"},
	"attention":  {"warning", "Attention"},
	"warning":    {"warning", "Warning"},
	"caution":    {"caution", "Caution"},
	"danger":     {"caution", "Danger"},
	"error":      {"caution", "Error"},
}

// admonitions turns directives into admonitions and reports unknown names.
func admonitions(st *state, doc *ast.Document, _ []byte) {
	each(doc, func(d *directive) {
		if d.name == tabSet || d.name == tabItem {
			return
		}
		kind, ok := admonitionKinds[d.name]
		if !ok {
			st.diags.AddHint(st.pos(d), diag.DidYouMean(d.name, directiveNames()), "unknown directive {%s}", d.name)
			return
		}
		a := &admonition{style: kind[0], title: kind[1]}
		if d.arg != "" {
			a.title = d.arg
		}
		become(d, a)
	})
}

// alertNames are GitHub's, in its own order.
var alertNames = []string{"NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"}

// alerts turns a quote that begins with [!NOTE] into an admonition.
func alerts(st *state, doc *ast.Document, source []byte) {
	each(doc, func(q *ast.Blockquote) {
		p, ok := q.FirstChild().(*ast.Paragraph)
		if !ok || p.Lines().Len() == 0 {
			return
		}
		first := p.Lines().At(0)
		line := strings.TrimSpace(string(first.Value(source)))
		if !strings.HasPrefix(line, "[!") || !strings.HasSuffix(line, "]") {
			return
		}
		name := line[2 : len(line)-1]
		if !slices.Contains(alertNames, strings.ToUpper(name)) {
			st.diags.AddHint(st.pos(q), diag.DidYouMean(name, alertNames), "unknown alert [!%s]", name)
			return
		}
		dropThrough(p, first.Stop)
		if p.FirstChild() == nil {
			q.RemoveChild(q, p)
		}
		kind := admonitionKinds[strings.ToLower(name)]
		become(q, &admonition{style: kind[0], title: kind[1]})
	})
}

// dropThrough removes the inline nodes of a paragraph that begin before an
// offset of the source.
func dropThrough(p ast.Node, stop int) {
	for c := p.FirstChild(); c != nil; c = p.FirstChild() {
		t, isText := c.(*ast.Text)
		if isText && t.Segment.Start >= stop || !isText && c.Pos() >= stop {
			return
		}
		p.RemoveChild(p, c)
	}
}

// become puts a node in the place of another and takes over its children.
func become(old, fresh ast.Node) {
	for c := old.FirstChild(); c != nil; c = old.FirstChild() {
		fresh.AppendChild(fresh, c)
	}
	if s, ok := fresh.(interface{ SetPos(int) }); ok {
		s.SetPos(old.Pos())
	}
	parent := old.Parent()
	parent.ReplaceChild(parent, old, fresh)
}

func renderAdmonition(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	a, ok := n.(*admonition)
	if !ok {
		return ast.WalkContinue, nil
	}
	if !entering {
		_, _ = w.WriteString("</div>\n")
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString(`<div class="alert ` + a.style + `" role="note">`)
	if a.title != "" {
		_, _ = w.WriteString(`<p class="alert-title">`)
		writeEscaped(w, a.title)
		_, _ = w.WriteString("</p>")
	}
	_ = w.WriteByte('\n')
	return ast.WalkContinue, nil
}
