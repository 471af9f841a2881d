// Package site holds the theme: the templates of the pages, and the style
// sheet, scripts and icon that they load. It is data; package page fills it in.
package site

import "embed"

// Theme is the built-in theme: templates/*.html, and assets/ which is copied to
// every site as it is.
//
//go:embed templates assets
var Theme embed.FS
