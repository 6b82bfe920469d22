// Package examples has the workflows that come with prodigy.
package examples

import "embed"

// Quickstart has the files below quickstart. The workflow names them from the top of the repository.
//
//go:embed quickstart
var Quickstart embed.FS
