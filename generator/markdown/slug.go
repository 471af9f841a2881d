package markdown

import (
	"strconv"
	"strings"
	"unicode"
)

// Slug returns the anchor that GitHub gives to a heading: lower case, letters,
// marks, numbers, hyphens and underscores of any script kept, each space a
// hyphen, all else dropped. It is empty for a heading of punctuation alone.
func Slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Pc):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// IDs gives out the ids of one page, each once. The zero value is empty and
// ready; it is not for concurrent use.
type IDs struct{ taken map[string]bool }

// Take reserves an id that must be exactly this one, and reports whether it was
// free.
func (ids *IDs) Take(id string) bool {
	if ids.taken == nil {
		ids.taken = map[string]bool{}
	}
	free := !ids.taken[id]
	ids.taken[id] = true
	return free
}

// New reserves the slug of a heading, with -1, -2 and so on after it where the
// page already has it.
func (ids *IDs) New(heading string) string {
	slug := Slug(heading)
	if slug == "" {
		slug = "section"
	}
	id := slug
	for n := 1; !ids.Take(id); n++ {
		id = slug + "-" + strconv.Itoa(n)
	}
	return id
}
