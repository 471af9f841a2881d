package generator

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"

	"rutter/generator/markdown"
	"rutter/generator/page"
	"rutter/runbooks/diag"
)

const (
	faqPath       = "faq/index.html"
	cataloguePath = "runbooks/index.html"
	verbsPath     = "reference/verbs/index.html"
)

// isTopic reports whether a doc only titles a part of the FAQ.
func isTopic(d *doc) bool { return d.in("faq") && d.isIndex() && d.path != "faq/index.md" }

func isQuestion(d *doc) bool { return d.in("faq") && !d.isIndex() }

// isArticle reports whether a doc is a page of prose by itself.
func isArticle(d *doc) bool {
	return d.path != "index.md" && d.path != "faq/index.md" && !isTopic(d) && !isQuestion(d)
}

// put renders a page into the tree.
func (b *builder) put(name string, render func(io.Writer) error) error {
	if _, taken := b.tree[name]; taken {
		return fmt.Errorf("two sources make the page %s", name)
	}
	var buf bytes.Buffer
	if err := render(&buf); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.tree[name] = buf.Bytes()
	return nil
}

func (b *builder) frame(out, title, summary string) page.Frame {
	return page.Frame{Site: b.site, Path: out, Title: title, Lead: summary, Description: summary}
}

// copyAssets puts the theme's files and those of the content into the tree.
func (b *builder) copyAssets() error {
	err := fs.WalkDir(b.cfg.Theme, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b.tree[name], err = fs.ReadFile(b.cfg.Theme, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy the theme: %w", err)
	}
	for name := range b.assets {
		if _, taken := b.tree[name]; taken {
			return fmt.Errorf("%s: the theme has a file of this name", path.Join(contentDir, name))
		}
		if b.tree[name], err = fs.ReadFile(b.cfg.Content, name); err != nil {
			return fmt.Errorf("copy the content: %w", err)
		}
	}
	return nil
}

func (b *builder) home() error {
	d := b.byPath["index.md"]
	conv := b.convert(d.src, d.out, markdown.Options{}, nil)
	h := page.Home{Frame: b.frame(d.out, d.meta.Title, d.meta.Summary), Heading: d.meta.Title, Body: trusted(conv.HTML)}
	for _, t := range b.topics() {
		g := page.SymptomGroup{Title: t.title}
		for _, q := range t.questions {
			for _, s := range q.meta.Symptoms {
				g.Symptoms = append(g.Symptoms, page.Symptom{Text: s, Answer: q.meta.Title, Href: page.Rel(d.out, q.out)})
			}
		}
		if len(g.Symptoms) > 0 {
			h.Topics = append(h.Topics, g)
		}
	}
	for _, rb := range b.runbooks {
		h.Runbooks = append(h.Runbooks, *b.card(d.out, rb.Path))
	}
	for _, a := range b.docs {
		if isArticle(a) && !a.isIndex() {
			h.Guides = append(h.Guides, page.Guide{Title: a.meta.Title, Summary: a.meta.Summary, Href: page.Rel(d.out, a.out)})
		}
	}
	b.search.add(d.out, d.meta, "Home", conv)
	return b.put(d.out, func(w io.Writer) error { return b.theme.Home(w, h) })
}

// card returns the card of a runbook as linked from a page, nil for none.
func (b *builder) card(from, rbPath string) *page.Card {
	c, ok := b.cards[rbPath]
	if !ok {
		return nil
	}
	c.Href = page.Rel(from, runbookPath(rbPath))
	return &c
}

func (b *builder) articles() error {
	var list []*doc
	for _, d := range b.docs {
		if isArticle(d) {
			list = append(list, d)
		}
	}
	for i, d := range list {
		conv := b.convert(d.src, d.out, markdown.Options{}, nil)
		a := page.Article{Frame: b.frame(d.out, d.meta.Title, d.meta.Summary), Body: trusted(conv.HTML)}
		a.TOC = outline(conv, 2)
		a.Crumbs = b.crumbs(d)
		a.Prev, a.Next = neighbours(list, i)
		b.search.add(d.out, d.meta, sectionName(d), conv)
		if err := b.put(d.out, func(w io.Writer) error { return b.theme.Article(w, a) }); err != nil {
			return err
		}
	}
	return nil
}

// sectionName is the first directory of a doc, as a word.
func sectionName(d *doc) string {
	dir, _, ok := strings.Cut(d.path, "/")
	if !ok {
		return ""
	}
	return strings.ToUpper(dir[:1]) + dir[1:]
}

func (b *builder) crumbs(d *doc) []page.Link {
	var cs []page.Link
	for dir := path.Dir(d.path); dir != "."; dir = path.Dir(dir) {
		ix := b.byPath[path.Join(dir, "index.md")]
		if ix == nil || ix == d {
			continue
		}
		to := b.pageOf(ix)
		if isTopic(ix) {
			to += "#" + topicID(ix)
		}
		cs = append([]page.Link{{Title: ix.meta.Title, Path: to}}, cs...)
	}
	return cs
}

func neighbours(list []*doc, i int) (prev, next *page.Link) {
	if i > 0 {
		prev = &page.Link{Title: list[i-1].meta.Title, Path: list[i-1].out}
	}
	if i+1 < len(list) {
		next = &page.Link{Title: list[i+1].meta.Title, Path: list[i+1].out}
	}
	return prev, next
}

// outline returns the headings of a document for its table of contents.
func outline(d *markdown.Document, top int) []page.Heading {
	var hs []page.Heading
	for _, s := range d.Sections {
		if s.Level >= top && s.Level <= top+1 {
			hs = append(hs, page.Heading{ID: s.ID, Title: s.Title, Deep: s.Level > top})
		}
	}
	return hs
}

func (b *builder) verbs() error {
	d := page.Verbs{Frame: b.frame(verbsPath, "What a step can do",
		"Each step of a runbook has one of these verbs. The page, the plan and the run follow from it.")}
	for _, k := range b.cfg.Kinds {
		prose := b.prose(diag.Source{Name: "the verb " + k.Name, Text: k.Doc}, verbsPath)
		v := page.NewVerb(k, prose, func(s string) template.HTML { return highlight(s, "yaml", "an example") })
		d.Verbs = append(d.Verbs, v)
		d.TOC = append(d.TOC, page.Heading{ID: v.ID, Title: v.Name})
		b.search.one(v.Name, "Verb", verbsPath+"#"+v.ID, v.Summary)
	}
	return b.put(verbsPath, func(w io.Writer) error { return b.theme.Verbs(w, d) })
}

func (b *builder) notFound() error {
	f := b.frame("404.html", "Not found", "")
	f.Base = b.base
	return b.put(f.Path, func(w io.Writer) error { return b.theme.NotFound(w, f) })
}
