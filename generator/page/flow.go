package page

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// FlowDrawing is the flow of a runbook as shapes. A page has two drawings, one
// for wide screens and one that stands upright on a phone; the style sheet
// shows the one that fits.
type FlowDrawing struct {
	Class         string
	Width, Height int
	Label         string
	Box           FlowBox
	Nodes         []FlowNode
	Path          string // all connections, as the d of an SVG path
}

// FlowBox is the shape of every box, seen from its middle.
type FlowBox struct{ X, Y, W, H int }

// FlowNode is a step: a box that links to it, with its middle at X and Y.
type FlowNode struct {
	Anchor, Class string
	X, Y          int
	Texts         []FlowText
}

// FlowText is a line in a box, Y below the middle.
type FlowText struct {
	Y           int
	Text, Class string
}

// cell is what goes into a box.
type cell struct {
	number                     int // of the step, or of a phase's first
	anchor, class, title, note string
}

const (
	boxHeight = 58
	gapX      = 26
	gapY      = 30
)

func flow(phases []Phase, finally []Step) []FlowDrawing {
	cells, label := flowCells(phases, finally)
	return []FlowDrawing{
		drawFlow(cells, label, "upright", 320, 1),
		drawFlow(cells, label, "across", 704, acrossColumns(len(cells))),
	}
}

// acrossColumns is how many boxes stand side by side: few in a long flow, whose
// titles then have room.
func acrossColumns(cells int) int {
	if cells > 8 {
		return 3
	}
	return min(max(cells, 2), 4)
}

// flowCells has a box for each step, or for each phase of a long runbook.
func flowCells(phases []Phase, finally []Step) ([]cell, string) {
	var cells []cell
	var names []string
	number := 1
	add := func(s Step, class, note string) {
		cells = append(cells, cell{number, s.Anchor, s.Effect.Class + class, s.Title, note})
		names = append(names, s.Title)
	}
	var steps []Step
	if len(phases) == 1 {
		steps = phases[0].Steps
	} else {
		for _, p := range phases {
			add(Step{Anchor: cmp.Or(p.Anchor, p.Steps[0].Anchor), Title: cmp.Or(p.Title, p.Steps[0].Title), Effect: p.Effect}, "",
				p.Effect.Word+" · "+count(len(p.Steps), "step"))
			number += len(p.Steps)
		}
	}
	for _, s := range steps {
		note := s.Effect.Word
		if s.If != "" {
			note += " · if needed"
		}
		if len(s.Rescue) > 0 {
			note += " · rescue"
		}
		add(s, map[bool]string{true: " maybe"}[s.If != ""], note)
		number++
	}
	for _, s := range finally {
		add(s, " last", s.Effect.Word+" · always")
		number++
	}
	return cells, "The steps in order: " + strings.Join(names, ", ")
}

// drawFlow lays the cells out row by row.
func drawFlow(cells []cell, label, class string, width, columns int) FlowDrawing {
	rows := (len(cells) + columns - 1) / columns
	w := (width - 4 - (columns-1)*gapX) / columns
	d := FlowDrawing{
		Class: class, Width: width, Height: max(rows*(boxHeight+gapY)-gapY+4, 4), Label: label,
		Box: FlowBox{X: -w / 2, Y: -boxHeight / 2, W: w, H: boxHeight},
	}
	var path strings.Builder
	for i, c := range cells {
		x, y := 2+(i%columns)*(w+gapX), 2+(i/columns)*(boxHeight+gapY)
		d.Nodes = append(d.Nodes, node(c, x+w/2, y+boxHeight/2, w))
		if i+1 < len(cells) {
			path.WriteString(connection(i, columns, x, y, w))
		}
	}
	d.Path = path.String()
	return d
}

// connection leads from box i to the next: to the right, or around to the
// beginning of the next row.
func connection(i, columns, x, y, w int) string {
	mid := y + boxHeight/2
	switch {
	case columns == 1:
		return fmt.Sprintf("M%d %dv%dm-4-5 4 5 4-5", x+w/2, y+boxHeight, gapY-1)
	case (i+1)%columns != 0:
		return fmt.Sprintf("M%d %dh%dm-5-4 5 4-5 4", x+w, mid, gapX-1)
	}
	return fmt.Sprintf("M%d %dv%dH%dv%dm-4-5 4 5 4-5", x+w/2, y+boxHeight, gapY/2, 2+w/2, gapY/2-1)
}

func node(c cell, x, y, w int) FlowNode {
	n := FlowNode{Anchor: c.anchor, Class: c.class, X: x, Y: y}
	lines := fit(fmt.Sprintf("%d  %s", c.number, c.title), w)
	top := -4
	if len(lines) == 2 {
		top = -10
	}
	for i, l := range lines {
		n.Texts = append(n.Texts, FlowText{Y: top + 15*i, Text: l})
	}
	note := []rune(c.note)
	if limit := (w - 8) / 6; len(note) > limit {
		note = append(note[:limit-1], '…')
	}
	n.Texts = append(n.Texts, FlowText{Y: top + 15*len(lines) + 2, Text: string(note), Class: "dim"})
	return n
}

// fit breaks a text into at most two lines of a box. Letters are taken to be 7.4
// wide, which the widest of the usual fonts needs at the theme's size.
func fit(text string, w int) []string {
	limit := (w - 8) * 10 / 74
	if utf8.RuneCountInString(text) <= limit {
		return []string{text}
	}
	first, rest := "", ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case rest == "" && utf8.RuneCountInString(first)+utf8.RuneCountInString(word) < limit:
			first += word + " "
		default:
			rest += word + " "
		}
	}
	rest = strings.TrimSpace(rest)
	if r := []rune(rest); len(r) > limit {
		rest = strings.TrimSpace(string(r[:limit-1])) + "…"
	}
	if first = strings.TrimSpace(first); first == "" {
		return []string{rest}
	}
	return []string{first, rest}
}
