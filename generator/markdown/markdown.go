// Package markdown turns a Markdown source into a page's HTML.
//
// [Convert] is the one way in; its [Document] holds the HTML, the sections
// (which are the outline and the text to search) and the links with their
// places in the source. The dialect is CommonMark with GitHub's tables, task
// lists, strikethrough, autolinks and alerts, footnotes, definition lists, and
// the admonitions and tabs of MyST. Raw HTML is left out, and a link can only
// lead where a link may. The package reads no files and knows no other page:
// its caller says what a destination means.
package markdown

import (
	"bytes"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"rutter/runbooks/diag"
)

// Source is a Markdown text and where it stands.
type Source struct {
	File string // named in diagnostics
	Text string // without front matter
	Line int    // line of the file on which Text begins; 0 means 1
	Col  int    // columns by which Text was indented in the file
}

// Options change how a source becomes HTML. The zero value fits a page of its
// own whose links need no resolving.
type Options struct {
	// IDs gives out heading ids. Sources that share a page share it; nil means
	// a page of its own.
	IDs *IDs
	// Shift is added to the level of each heading.
	Shift int
	// Prefix keeps footnotes apart where sources share a page.
	Prefix string
	// Resolve turns the destination of a link or an image into an href, or
	// says what is wrong with it; the diagnostic needs no position. Nil keeps
	// destinations as they are. It is not asked about external links.
	Resolve func(dest string) (string, *diag.Diagnostic)
}

// Document is what one source became.
type Document struct {
	HTML     string // safe to put on a page
	Sections []Section
	Links    []Link
}

// Section is a heading with the text under it, down to the next heading of any
// level. The first section is what stands before the first heading: its Level
// is 0 and its ID empty.
type Section struct {
	Level int
	ID    string
	Title string
	Text  string // plain, one line per block
	Pos   diag.Pos
}

// Link is a link or an image as it stands in the HTML.
type Link struct {
	Href  string
	Image bool
	Pos   diag.Pos
}

// Convert renders src. The document is complete even if there are diagnostics:
// what was wrong is left out or shown as text.
func Convert(src Source, opts Options) (*Document, diag.List) {
	if opts.IDs == nil {
		opts.IDs = &IDs{}
	}
	st := &state{opts: opts, lines: newLines(src), doc: &Document{}}
	pc := parser.NewContext()
	pc.Set(stateKey, st)
	md := newGoldmark(st)
	root := md.Parser().Parse(text.NewReader(st.lines.text), parser.WithContext(pc))
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, st.lines.text, root); err != nil {
		st.diags.Addf(diag.Pos{File: src.File}, "render: %v", err)
	}
	st.doc.HTML = out.String()
	st.diags.Sort()
	return st.doc, st.diags
}

// state is what the transformers of one conversion share.
type state struct {
	opts  Options
	lines *lines
	doc   *Document
	diags diag.List
}

var stateKey = parser.NewContextKey()

func stateOf(pc parser.Context) *state {
	st, ok := pc.Get(stateKey).(*state)
	if !ok {
		return &state{opts: Options{IDs: &IDs{}}, lines: newLines(Source{}), doc: &Document{}}
	}
	return st
}

// pos is the place of a node in the file.
func (st *state) pos(n ast.Node) diag.Pos { return st.lines.pos(n.Pos()) }

// newGoldmark assembles the dialect. A Markdown extension is one file with a
// constructor, and a line here.
func newGoldmark(st *state) goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)),
			extension.Strikethrough, extension.Linkify, extension.TaskList,
			extension.DefinitionList,
			extension.NewFootnote(extension.WithFootnoteIDPrefix(st.opts.Prefix)),
		),
		goldmark.WithParserOptions(
			parser.WithAttribute(),
			parser.WithBlockParsers(util.Prioritized(directiveParser{}, 690)),
			parser.WithASTTransformers(
				util.Prioritized(transform(admonitions), 100),
				util.Prioritized(transform(alerts), 110),
				util.Prioritized(transform(tabs), 120),
				util.Prioritized(transform(code), 130),
				util.Prioritized(transform(tables), 135),
				util.Prioritized(transform(links), 140),
				util.Prioritized(transform(headings), 150),
				// Footnotes move to the end of the document at 999; the text
				// is collected before.
				util.Prioritized(transform(sections), 160),
			),
		),
		goldmark.WithRendererOptions(
			renderer.WithNodeRenderers(util.Prioritized(nodes{}, 100)),
		),
	)
}

// transform makes an AST transformer of a function.
type transform func(*state, *ast.Document, []byte)

// Transform implements parser.ASTTransformer.
func (f transform) Transform(doc *ast.Document, r text.Reader, pc parser.Context) {
	f(stateOf(pc), doc, r.Source())
}

// nodes renders the node kinds of this package.
type nodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (nodes) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(kindAdmonition, renderAdmonition)
	reg.Register(kindDirective, renderDirective)
	reg.Register(kindTabs, renderTabs)
	reg.Register(kindCode, renderCode)
	reg.Register(ast.KindHeading, renderHeading)
	reg.Register(ast.KindLink, renderLink)
	reg.Register(ast.KindAutoLink, renderAutoLink)
	reg.Register(ast.KindImage, renderImage)
	reg.Register(ast.KindHTMLBlock, renderNothing)
	reg.Register(ast.KindRawHTML, renderRawHTML)
}

func renderNothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

// renderRawHTML shows a tag in a sentence as the text it is: an author who
// writes <CLUSTER_ID> outside code means a placeholder.
func renderRawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if raw, ok := n.(*ast.RawHTML); ok && entering {
		for i := range raw.Segments.Len() {
			seg := raw.Segments.At(i)
			writeEscaped(w, string(seg.Value(source)))
		}
	}
	return ast.WalkSkipChildren, nil
}

func writeEscaped(w util.BufWriter, s string) {
	_, _ = w.WriteString(escape(s))
}

func escape(s string) string { return string(util.EscapeHTML([]byte(s))) }

func attr(name, value string) string { return " " + name + `="` + escape(value) + `"` }
