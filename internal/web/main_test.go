package web

import (
	"testing"

	"prodigy/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.UseMemory()
	m.Run()
}
