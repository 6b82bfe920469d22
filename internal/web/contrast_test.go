package web

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Texts and marks can be told from what they stand on, in light and in dark: WCAG 2.2, 1.4.3 wants 4.5 to 1 for texts, 1.4.11 3 to 1
// for drawings. https://www.w3.org/TR/WCAG22/#contrast-minimum
func TestColoursHaveContrast(t *testing.T) {
	light, dark, found := strings.Cut(chartsStyle, "@media screen and (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("there is no dark style")
	}
	for name, sheet := range map[string]string{"light": light, "dark": dark[:strings.Index(dark, "} }")]} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{3,6});`).FindAllStringSubmatch(sheet, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, text := range []string{"ink", "soft", "wait", "ok", "bad", "again", "magenta", "cyan"} {
			for _, ground := range []string{"paper", "panel"} {
				least := 4.5
				if text == "ok" || text == "bad" || text == "again" {
					least = 3
				}
				if got := contrast(colours[text], colours[ground]); got < least {
					t.Errorf("%s: %s on %s has a contrast of %.1f, want %.1f", name, text, ground, got, least)
				}
			}
		}
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	var parts [3]float64
	for i := range parts {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if parts[i] = c / 12.92; c > 0.04045 {
			parts[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*parts[0] + 0.7152*parts[1] + 0.0722*parts[2]
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }
