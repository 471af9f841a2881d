package search

import (
	"strings"
	"unicode"
)

// Terms cuts text into lower-case terms, in order, with repeats:
//
//   - an identifier whole, such as liqo.io/type, --set-file, kube-system/x or
//     a:b, and the words it is made of;
//   - a word of mixed case whole and its parts: OffloadingBackOff, offloading,
//     back, off;
//   - scripts written without spaces as pairs of neighbouring characters.
func Terms(text string) []string {
	var terms []string
	runes := []rune(text)
	for i := 0; i < len(runes); {
		if !inIdentifier(runes[i]) {
			i++
			continue
		}
		start := i
		for i < len(runes) && inIdentifier(runes[i]) {
			i++
		}
		terms = appendIdentifier(terms, runes[start:i])
	}
	return terms
}

// Joiners hold an identifier together when they stand inside of it.
const joiners = "./:_@-"

func inIdentifier(r rune) bool { return isWord(r) || strings.ContainsRune(joiners, r) }

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }

func appendIdentifier(terms []string, id []rune) []string {
	whole := strings.Trim(string(id), joiners)
	if whole == "" {
		return terms
	}
	words := strings.FieldsFunc(whole, func(r rune) bool { return !isWord(r) })
	if len(words) > 1 {
		terms = append(terms, strings.ToLower(whole))
	}
	for _, w := range words {
		terms = appendWord(terms, []rune(w))
	}
	return terms
}

func appendWord(terms []string, w []rune) []string {
	for i := 0; i < len(w); {
		start := i
		if unspaced(w[i]) {
			for i < len(w) && unspaced(w[i]) {
				i++
			}
			terms = appendPairs(terms, w[start:i])
			continue
		}
		for i < len(w) && !unspaced(w[i]) {
			i++
		}
		terms = append(terms, strings.ToLower(string(w[start:i])))
		terms = appendHumps(terms, w[start:i])
	}
	return terms
}

// appendHumps adds the parts of a camel-case word, if it has several.
func appendHumps(terms []string, w []rune) []string {
	start, first := 0, true
	for i := 1; i < len(w); i++ {
		if unicode.IsUpper(w[i]) && unicode.IsLower(w[i-1]) {
			terms = append(terms, strings.ToLower(string(w[start:i])))
			start, first = i, false
		}
	}
	if !first {
		terms = append(terms, strings.ToLower(string(w[start:])))
	}
	return terms
}

func appendPairs(terms []string, w []rune) []string {
	if len(w) == 1 {
		return append(terms, string(w))
	}
	for i := range len(w) - 1 {
		terms = append(terms, string(w[i:i+2]))
	}
	return terms
}

// unspaced reports whether a script puts no spaces between words.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}
