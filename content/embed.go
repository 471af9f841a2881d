// Package content holds the Markdown that the site is made of. It is data:
// package generator reads it.
package content

import "embed"

// Files is the content tree: index.md is the first page, faq/ the questions,
// handbook/ the manual.
//
//go:embed *.md faq handbook
var Files embed.FS
