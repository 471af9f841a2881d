package bundle

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkName refuses a name that could lead outside of the directory a bundle is
// unpacked in, on any system, or that a system would read as another name.
func checkName(name string) error {
	switch {
	case name == "" || !utf8.ValidString(name):
		return fmt.Errorf("%q: not a file name", name)
	case strings.Contains(name, `\`):
		return fmt.Errorf("%q: backslash in a name", name)
	case strings.Contains(name, ":"):
		return fmt.Errorf("%q: colon in a name", name)
	case strings.HasPrefix(name, "/"):
		return fmt.Errorf("%q: absolute path", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%q: control character in a name", name)
	case path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return fmt.Errorf("%q: path leads outside of the bundle or is not in its shortest form", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.TrimRight(part, ". ") != part {
			return fmt.Errorf("%q: a part of the path ends in a dot or a space", name)
		}
		if base, _, _ := strings.Cut(part, "."); reserved[strings.ToUpper(base)] {
			return fmt.Errorf("%q: %s is a device on Windows", name, base)
		}
	}
	return nil
}

var reserved = map[string]bool{
	"CON": true, "PRN": true, "AUX": true, "NUL": true,
	"COM1": true, "COM2": true, "COM3": true, "COM4": true, "COM5": true, "COM6": true, "COM7": true, "COM8": true, "COM9": true,
	"LPT1": true, "LPT2": true, "LPT3": true, "LPT4": true, "LPT5": true, "LPT6": true, "LPT7": true, "LPT8": true, "LPT9": true,
}
