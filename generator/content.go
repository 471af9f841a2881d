package generator

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"rutter/generator/markdown"
	"rutter/runbooks/diag"
	"rutter/runbooks/yamldoc"
)

// The names by which diagnostics and links between sources call the two trees.
const (
	contentDir  = "content"
	runbooksDir = "runbooks"
)

// meta is the front matter of a Markdown file. The tags are its schema.
type meta struct {
	Title    string   `yaml:"title,required" doc:"The heading of the page."`
	Summary  string   `yaml:"summary" doc:"One or two sentences, shown under the heading and in lists."`
	Order    int64    `yaml:"order" doc:"The place among its neighbours; those without one come last, by name."`
	Anchor   string   `yaml:"anchor" doc:"The anchor of a question on the page of all questions."`
	Symptoms []string `yaml:"symptoms" doc:"What a person sees who needs this page, in their words."`
	Keywords []string `yaml:"keywords" doc:"What else the page should be found by: error messages, other names."`
	Runbook  string   `yaml:"runbook" doc:"The runbook that does it, by its path without .yaml."`
}

// doc is one Markdown file.
type doc struct {
	path string // in the content tree, with .md
	out  string // in the output tree
	meta meta
	src  markdown.Source
	at   map[string]diag.Pos // of front matter keys
}

func (d *doc) in(dir string) bool { return strings.HasPrefix(d.path, dir+"/") }

func (d *doc) isIndex() bool { return path.Base(d.path) == "index.md" }

// file is the name of the source in diagnostics and for links.
func (d *doc) file() string { return path.Join(contentDir, d.path) }

// loadContent reads every file of the content tree. Markdown becomes docs;
// images and other files are copied as they are.
func (b *builder) loadContent() error {
	err := fs.WalkDir(b.cfg.Content, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			b.diags.AddHint(diag.Pos{File: path.Join(contentDir, name)}, "put the file itself here", "not a regular file; links are not followed")
			return nil
		case path.Ext(name) == ".md":
			text, err := fs.ReadFile(b.cfg.Content, name)
			if err != nil {
				return err
			}
			d := b.parse(name, string(text))
			b.docs = append(b.docs, d)
			b.byPath[name] = d
		case path.Ext(name) != ".go":
			b.assets[name] = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the content: %w", err)
	}
	if b.byPath["index.md"] == nil {
		return errors.New("read the content: it has no index.md, which is the first page")
	}
	slices.SortStableFunc(b.docs, b.order)
	return nil
}

// outPath returns where the page of a Markdown file goes.
func outPath(name string) string {
	name = strings.TrimSuffix(name, ".md")
	if path.Base(name) == "index" {
		return name + ".html"
	}
	return name + "/index.html"
}

// parse splits a file into front matter and body, and decodes the former.
func (b *builder) parse(name, text string) *doc {
	d := &doc{path: name, out: outPath(name), at: map[string]diag.Pos{}}
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	d.src = markdown.Source{File: d.file(), Text: text, Line: 1}
	front, body, ok := frontMatter(text)
	if !ok {
		b.diags.AddHint(diag.Pos{File: d.file(), Line: 1, Col: 1}, "begin the file with ---, title: …, ---", "no front matter")
		return d
	}
	d.src.Text, d.src.Line = body, strings.Count(front, "\n")+3
	// The dashes' line stays, empty, so that the lines are those of the file.
	src := diag.Source{Name: d.file(), Text: "\n" + front}
	node := yamldoc.Parse(src, &b.diags)
	if node == nil {
		return d
	}
	dec := &yamldoc.Decoder{Source: src, List: &b.diags}
	dec.Into(node, &d.meta, "front matter")
	for i := 0; i+1 < len(node.Content); i += 2 {
		d.at[node.Content[i].Value] = dec.Pos(node.Content[i+1])
	}
	return d
}

// frontMatter returns the YAML between the first line and the next that are
// three dashes, with its last newline, and what follows.
func frontMatter(text string) (front, body string, ok bool) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text, false
	}
	if body, ok := strings.CutPrefix(rest, "---\n"); ok {
		return "", body, true
	}
	front, body, ok = strings.Cut(rest, "\n---\n")
	if !ok {
		front, ok = strings.CutSuffix(rest, "\n---")
	}
	return front + "\n", body, ok
}

// order sorts docs as a reader meets them: by directory, whose own order is its
// index's, then by order and name.
func (b *builder) order(x, y *doc) int {
	if c := slices.Compare(b.sortKey(x), b.sortKey(y)); c != 0 {
		return c
	}
	return strings.Compare(x.path, y.path)
}

func (b *builder) sortKey(d *doc) []string {
	var key []string
	dir := ""
	for part := range strings.SplitSeq(path.Dir(d.path), "/") {
		dir = path.Join(dir, part)
		order := int64(0)
		if ix := b.byPath[path.Join(dir, "index.md")]; ix != nil {
			order = ix.meta.Order
		}
		key = append(key, orderKey(order)+part)
	}
	if d.isIndex() {
		return key
	}
	return append(key, orderKey(d.meta.Order)+path.Base(d.path))
}

func orderKey(order int64) string {
	if order <= 0 {
		return "9999999"
	}
	return fmt.Sprintf("%07d", order)
}

// checkMeta checks what front matter says about other sources.
func (b *builder) checkMeta() {
	var paths []string
	for _, rb := range b.runbooks {
		paths = append(paths, rb.Path)
	}
	anchors := map[string]*doc{}
	for _, d := range b.docs {
		if rb := d.meta.Runbook; rb != "" && !b.hasRunbook(rb) {
			b.diags.AddHint(d.at["runbook"], diag.DidYouMean(rb, paths), "no runbook %s", rb)
		}
		a := d.meta.Anchor
		if a == "" {
			continue
		}
		if other := anchors[a]; other != nil {
			b.diags.Addf(d.at["anchor"], "the anchor %q is also that of %s", a, other.file())
		}
		anchors[a] = d
	}
}

// hasRunbook reports whether there is a runbook file, be it in order or not:
// what is wrong with one is reported once, where it is.
func (b *builder) hasRunbook(p string) bool {
	if !fs.ValidPath(p) {
		return false
	}
	_, err := fs.Stat(b.cfg.Runbooks, p+".yaml")
	return err == nil
}
