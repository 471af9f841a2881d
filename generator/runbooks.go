package generator

import (
	"html/template"
	"io"
	"path"
	"strings"

	"rutter/generator/markdown"
	"rutter/generator/page"
	"rutter/runbooks/runbook"
)

// runbookPath returns the page of a runbook by its path in the catalogue.
func runbookPath(p string) string { return "runbooks/" + p + "/index.html" }

// prose returns what renders the Markdown inside of a YAML file. Its positions
// are those of the file as a whole.
func (b *builder) prose(file, out string) page.Prose {
	ids := &markdown.IDs{}
	return func(text string) template.HTML {
		d := b.convert(markdown.Source{File: file, Text: text}, out, markdown.Options{IDs: ids, Shift: 2})
		return trusted(d.HTML)
	}
}

func (b *builder) runbookPages() error {
	for i, rb := range b.runbooks {
		out := runbookPath(rb.Path)
		d := page.NewRunbook(rb, page.Markup{
			Prose:     b.prose(path.Join(runbooksDir, rb.Path+".yaml"), out),
			Highlight: highlight,
		})
		d.Site, d.Path = b.site, out
		dir := path.Dir(out)
		d.FilePath, d.SourcePath = dir+"/"+d.File, dir+"/source/index.html"
		d.Crumbs = []page.Link{{Title: "Runbooks", Path: cataloguePath}}
		if group := groupName(rb); group != "" {
			d.Crumbs = append(d.Crumbs, page.Link{Title: group, Path: cataloguePath + "#" + markdown.Slug(group)})
		}
		if i > 0 {
			d.Prev = &page.Link{Title: b.runbooks[i-1].Title, Path: runbookPath(b.runbooks[i-1].Path)}
		}
		if i+1 < len(b.runbooks) {
			d.Next = &page.Link{Title: b.runbooks[i+1].Title, Path: runbookPath(b.runbooks[i+1].Path)}
		}
		b.searchRunbook(rb, out)
		if err := b.put(out, func(w io.Writer) error { return b.theme.Runbook(w, d) }); err != nil {
			return err
		}
		if err := b.runbookSource(rb, d); err != nil {
			return err
		}
	}
	return nil
}

// runbookSource puts the file of a runbook beside its page, to read and to take
// along: it is as long as the page, and few readers want it.
func (b *builder) runbookSource(rb *runbook.Runbook, d page.Runbook) error {
	b.tree[d.FilePath] = []byte(rb.Source.Text)
	a := page.Article{
		Frame: b.frame(d.SourcePath, rb.Title+": the source", "What the page and the run are made from."),
		Body:  highlight(rb.Source.Text, "yaml", d.File),
	}
	a.Crumbs = append(append(a.Crumbs, d.Crumbs...), page.Link{Title: rb.Title, Path: d.Path})
	return b.put(d.SourcePath, func(w io.Writer) error { return b.theme.Article(w, a) })
}

// groupName is the topic of a runbook, as a heading: by its labels, else by
// where it stands.
func groupName(rb *runbook.Runbook) string {
	product, topic := rb.Labels["product"], rb.Labels["topic"]
	if product == "" && topic == "" {
		dir := path.Dir(rb.Path)
		if dir == "." {
			return "Other"
		}
		return strings.ReplaceAll(dir, "/", " · ")
	}
	var parts []string
	for _, p := range []string{product, topic} {
		if p != "" {
			parts = append(parts, strings.ToUpper(p[:1])+p[1:])
		}
	}
	return strings.Join(parts, " · ")
}

func (b *builder) catalogue() error {
	c := page.Catalogue{Frame: b.frame(cataloguePath, "Runbooks",
		"Procedures to read, print or run. Each page and its run are made from the same file.")}
	for _, rb := range b.runbooks {
		group := groupName(rb)
		n := len(c.Groups)
		if n == 0 || c.Groups[n-1].Title != group {
			c.Groups = append(c.Groups, page.CardGroup{Title: group, ID: markdown.Slug(group)})
			c.TOC = append(c.TOC, page.Heading{ID: markdown.Slug(group), Title: group})
			n++
		}
		c.Groups[n-1].Cards = append(c.Groups[n-1].Cards, *b.card(cataloguePath, rb.Path))
	}
	return b.put(cataloguePath, func(w io.Writer) error { return b.theme.Catalogue(w, c) })
}

// nav is the navigation, the same on every page.
func (b *builder) nav() []page.NavGroup {
	groups := []page.NavGroup{{Links: []page.Link{{Title: "What is broken?", Path: "index.html"}}}}
	if ix := b.byPath["faq/index.md"]; ix != nil {
		groups[0].Links = append(groups[0].Links, page.Link{Title: "All questions", Path: faqPath})
	}
	groups[0].Links = append(groups[0].Links, page.Link{Title: "All runbooks", Path: cataloguePath})
	for _, t := range b.topics() {
		g := page.NavGroup{Title: t.title}
		for _, q := range t.questions {
			g.Links = append(g.Links, page.Link{Title: q.meta.Title, Path: q.out})
		}
		groups = append(groups, g)
	}
	runbooks := page.NavGroup{Title: "Runbooks"}
	for _, rb := range b.runbooks {
		runbooks.Links = append(runbooks.Links, page.Link{Title: rb.Title, Path: runbookPath(rb.Path)})
	}
	if len(runbooks.Links) > 0 {
		groups = append(groups, runbooks)
	}
	var section string
	for _, d := range b.docs {
		if !isArticle(d) {
			continue
		}
		if name := sectionName(d); name != section || len(groups) == 0 {
			section = name
			groups = append(groups, page.NavGroup{Title: name})
		}
		g := &groups[len(groups)-1]
		g.Links = append(g.Links, page.Link{Title: d.meta.Title, Path: d.out})
	}
	return append(groups, page.NavGroup{Title: "Reference", Links: []page.Link{{Title: "What a step can do", Path: verbsPath}}})
}
