package markdown

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// The directives that make tabs, named as MyST names them.
const (
	tabSet  = "tab-set"
	tabItem = "tab-item"
)

// tabsNode is a row of tabs. Each child is a panel; titles has one name for
// each. Radio buttons switch the panels, so tabs need no JavaScript.
type tabsNode struct {
	ast.BaseBlock
	group  string // the radio buttons' name
	titles []string
}

var kindTabs = ast.NewNodeKind("Tabs")

// Kind implements ast.Node.
func (t *tabsNode) Kind() ast.NodeKind { return kindTabs }

// Dump implements ast.Node.
func (t *tabsNode) Dump(source []byte, level int) {
	ast.DumpHelper(t, source, level, map[string]string{"titles": strings.Join(t.titles, ", ")}, nil)
}

// tabs turns {tab-set} directives, whose children are {tab-item}s, into tabs.
func tabs(st *state, doc *ast.Document, _ []byte) {
	each(doc, func(set *directive) {
		if set.name != tabSet {
			return
		}
		t := &tabsNode{group: st.opts.IDs.New(st.opts.Prefix + "tabs")}
		for c := set.FirstChild(); c != nil; {
			next := c.NextSibling()
			item, ok := c.(*directive)
			if !ok || item.name != tabItem || item.arg == "" {
				st.diags.AddHint(st.pos(c), "write :::{tab-item} Title", "only titled {tab-item}s may stand in a {tab-set}")
				set.RemoveChild(set, c)
			} else {
				t.titles = append(t.titles, item.arg)
				item.name = ""
			}
			c = next
		}
		become(set, t)
	})
	each(doc, func(d *directive) {
		if d.name == tabItem {
			st.diags.AddHint(st.pos(d), "put it between ::::{tab-set} and ::::", "{tab-item} outside a {tab-set}")
		}
	})
}

// renderTabs writes each panel between a radio button with its label, which
// must be siblings for the style sheet to show the chosen one.
func renderTabs(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"tabs\">\n")
	} else {
		_, _ = w.WriteString("</div>\n")
	}
	return ast.WalkContinue, nil
}

// renderPanel is called for the panel of a tab on the way in and out.
func renderPanel(w util.BufWriter, t *tabsNode, panel ast.Node, entering bool) {
	if !entering {
		_, _ = w.WriteString("</div>\n")
		return
	}
	i := 0
	for c := panel.PreviousSibling(); c != nil; c = c.PreviousSibling() {
		i++
	}
	checked := ""
	if i == 0 {
		checked = " checked"
	}
	id := fmt.Sprintf("%s.%d", t.group, i+1) // no heading has a dot in its anchor
	fmt.Fprintf(w, `<input type="radio"%s%s%s><label%s>`, attr("name", t.group), attr("id", id), checked, attr("for", id))
	writeEscaped(w, t.titles[i])
	_, _ = w.WriteString("</label><div class=\"panel\">\n")
}
