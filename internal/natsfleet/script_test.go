package natsfleet

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"prodigy/internal/cli"
	"prodigy/internal/testenv/scripts"
)

// The test binary is prodigy too, with its companion.
func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))) // these tests wait most of their time
	}
	scripts.Main(m, map[string]func(){
		"prodigy":       func() { os.Exit(cli.Main(os.Args[1:], nil, nil)) },
		"prodigy-fleet": func() { os.Exit(cli.Main(os.Args[1:], Backend{}, nil)) },
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	scripts.Run(t, testscript.Params{Dir: "../../testdata/script/fleet"})
}

func TestGuidesOfFleetsDoWhatTheySay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the guides need some time")
	}
	scripts.RunGuides(t, "prodigy-fleet")
}
