// Package runbooks is the catalogue that ships with Rutter: runbooks, their
// drills and the custom resources that drills need, as files by product and
// topic. It is data; [rutter/runbooks/runbook.Load] reads it.
package runbooks

import (
	"embed"
	"io/fs"
)

//go:embed liqo
var files embed.FS

// FS holds the catalogue. Its root is the folder of products, so that a
// runbook stands at liqo/peering/force-unpeer.yaml.
var FS fs.FS = files
