package generator

import (
	"io"
	"path"

	"rutter/generator/markdown"
	"rutter/generator/page"
)

// topic is a part of the FAQ: a directory below faq/.
type topic struct {
	title, id string
	questions []*doc
}

// topics returns the parts of the FAQ with their questions, in order. Questions
// directly in faq/ come first, without a title.
func (b *builder) topics() []*topic {
	var list []*topic
	byDir := map[string]*topic{}
	for _, d := range b.docs {
		if !isQuestion(d) {
			continue
		}
		dir := path.Dir(d.path)
		t := byDir[dir]
		if t == nil {
			t = &topic{title: path.Base(dir), id: markdown.Slug(path.Base(dir))}
			if ix := b.byPath[path.Join(dir, "index.md")]; ix != nil {
				t.title, t.id = ix.meta.Title, topicID(ix)
			}
			byDir[dir] = t
			list = append(list, t)
		}
		t.questions = append(t.questions, d)
	}
	return list
}

func topicID(ix *doc) string {
	if ix.meta.Anchor != "" {
		return ix.meta.Anchor
	}
	return markdown.Slug(ix.meta.Title)
}

func questionID(d *doc) string {
	if d.meta.Anchor != "" {
		return d.meta.Anchor
	}
	return markdown.Slug(d.meta.Title)
}

// faq makes the page of all questions. Well-known anchors are taken before any
// heading inside an answer gets one.
func (b *builder) faq() error {
	ix := b.byPath["faq/index.md"]
	if ix == nil {
		return nil
	}
	ids := &markdown.IDs{}
	topics := b.topics()
	for _, t := range topics {
		ids.Take(t.id)
		for _, q := range t.questions {
			ids.Take(questionID(q))
		}
	}
	intro := b.convert(ix.src, faqPath, markdown.Options{IDs: ids}, nil)
	f := page.FAQ{Frame: b.frame(faqPath, ix.meta.Title, ix.meta.Summary), Body: trusted(intro.HTML)}
	for _, t := range topics {
		ft := page.FAQTopic{Title: t.title, ID: t.id}
		f.TOC = append(f.TOC, page.Heading{ID: t.id, Title: t.title})
		for _, q := range t.questions {
			id := questionID(q)
			answer := b.convert(q.src, faqPath, markdown.Options{IDs: ids, Shift: 2, Prefix: id + "-"}, nil)
			ft.Questions = append(ft.Questions, page.FAQEntry{
				Title: q.meta.Title, ID: id, Href: page.Rel(faqPath, q.out),
				Body: trusted(answer.HTML), Runbook: b.card(faqPath, q.meta.Runbook),
			})
			f.TOC = append(f.TOC, page.Heading{ID: id, Title: q.meta.Title, Deep: true})
		}
		f.Topics = append(f.Topics, ft)
	}
	return b.put(faqPath, func(w io.Writer) error { return b.theme.FAQ(w, f) })
}

// questions makes the page of each question.
func (b *builder) questions() error {
	var list []*doc
	for _, t := range b.topics() {
		list = append(list, t.questions...)
	}
	for i, d := range list {
		conv := b.convert(d.src, d.out, markdown.Options{}, nil)
		q := page.Question{
			Frame: b.frame(d.out, d.meta.Title, d.meta.Summary), Symptoms: d.meta.Symptoms,
			Body: trusted(conv.HTML), Runbook: b.card(d.out, d.meta.Runbook),
		}
		q.TOC = outline(conv, 2)
		q.Crumbs = b.crumbs(d)
		q.Prev, q.Next = neighbours(list, i)
		b.search.add(d.out, d.meta, "Question", conv)
		if err := b.put(d.out, func(w io.Writer) error { return b.theme.Question(w, q) }); err != nil {
			return err
		}
	}
	return nil
}
