package markdown

import (
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// directive is a block of the MyST form, whose inside is Markdown:
//
//	:::{name} argument        ```{name} argument
//	:option: value            …
//	…                         ```
//	:::
//
// A directive that holds others is fenced with more colons than they are. What
// a name means is for a transformer to say.
type directive struct {
	ast.BaseBlock
	name, arg string
	options   map[string]string
	fence     byte
	length    int
	inOptions bool
	closed    bool
}

var kindDirective = ast.NewNodeKind("Directive")

// Kind implements ast.Node.
func (d *directive) Kind() ast.NodeKind { return kindDirective }

// Dump implements ast.Node.
func (d *directive) Dump(source []byte, level int) {
	ast.DumpHelper(d, source, level, map[string]string{"name": d.name, "arg": d.arg}, nil)
}

var (
	directiveOpen   = regexp.MustCompile("^(:{3,}|`{3,})\\{([a-zA-Z][\\w:+.-]*)\\}[ \t]*(.*?)[ \t]*$")
	directiveOption = regexp.MustCompile(`^[ \t]*:([\w-]+):[ \t]*(.*?)[ \t]*$`)
)

// directiveParser is the block parser of directives. A name it does not know is
// taken only after colons: after backticks it is a code block.
type directiveParser struct{}

// Trigger implements parser.BlockParser.
func (directiveParser) Trigger() []byte { return []byte{':', '`'} }

// Open implements parser.BlockParser.
func (directiveParser) Open(_ ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, _ := r.PeekLine()
	if pc.BlockOffset() < 0 {
		return nil, parser.NoChildren
	}
	m := directiveOpen.FindStringSubmatch(strings.TrimRight(string(line[pc.BlockOffset():]), "\r\n"))
	if m == nil || m[1][0] == '`' && !slices.Contains(directiveNames(), m[2]) {
		return nil, parser.NoChildren
	}
	r.AdvanceToEOL()
	return &directive{
		name: m[2], arg: m[3], fence: m[1][0], length: len(m[1]),
		options: map[string]string{}, inOptions: true,
	}, parser.HasChildren
}

// Continue implements parser.BlockParser.
func (directiveParser) Continue(n ast.Node, r text.Reader, _ parser.Context) parser.State {
	d, ok := n.(*directive)
	if !ok {
		return parser.Close
	}
	line, _ := r.PeekLine()
	trimmed := strings.TrimSpace(string(line))
	if len(trimmed) >= d.length && strings.Trim(trimmed, string(d.fence)) == "" {
		d.closed = true
		r.AdvanceToEOL()
		return parser.Close
	}
	if m := directiveOption.FindStringSubmatch(strings.TrimRight(string(line), "\n")); d.inOptions && m != nil {
		d.options[m[1]] = m[2]
		r.AdvanceToEOL()
		return parser.Continue | parser.HasChildren
	}
	d.inOptions = false
	return parser.Continue | parser.HasChildren
}

// Close implements parser.BlockParser.
func (directiveParser) Close(n ast.Node, _ text.Reader, pc parser.Context) {
	d, ok := n.(*directive)
	if !ok || d.closed {
		return
	}
	st := stateOf(pc)
	fence := strings.Repeat(string(d.fence), d.length)
	st.diags.AddHint(st.pos(d), "end it with a line "+fence, "{%s} is never closed", d.name)
}

// CanInterruptParagraph implements parser.BlockParser.
func (directiveParser) CanInterruptParagraph() bool { return true }

// CanAcceptIndentedLine implements parser.BlockParser.
func (directiveParser) CanAcceptIndentedLine() bool { return false }

// directiveNames lists what may stand between the braces.
func directiveNames() []string {
	names := []string{tabSet, tabItem}
	for name := range admonitionKinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// renderDirective shows the inside of a directive: a tab's panel, or one that
// no transformer knew.
func renderDirective(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if t, ok := n.Parent().(*tabsNode); ok {
		renderPanel(w, t, n, entering)
	}
	return ast.WalkContinue, nil
}
