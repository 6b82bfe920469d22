class Prodigy < Formula
  desc "Run a command, script or AI agent over thousands of items, without losing any"
  homepage "https://<% .Repo %>"
  version "<% .Version %>"
  license "MIT"

  on_macos do
    on_arm do
      url "<% .Base %>/<% .Archives.darwin_arm64.Name %>"
      sha256 "<% .Archives.darwin_arm64.Sum %>"
    end
    on_intel do
      url "<% .Base %>/<% .Archives.darwin_amd64.Name %>"
      sha256 "<% .Archives.darwin_amd64.Sum %>"
    end
  end

  on_linux do
    on_arm do
      url "<% .Base %>/<% .Archives.linux_arm64.Name %>"
      sha256 "<% .Archives.linux_arm64.Sum %>"
    end
    on_intel do
      url "<% .Base %>/<% .Archives.linux_amd64.Name %>"
      sha256 "<% .Archives.linux_amd64.Sum %>"
    end
  end

  def install
    bin.install "prodigy"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/prodigy.bash" => "prodigy"
    zsh_completion.install "completions/prodigy.zsh" => "_prodigy"
    fish_completion.install "completions/prodigy.fish"
  end

  test do
    assert_match "prodigy v#{version} ", shell_output("#{bin}/prodigy version")
    assert_equal "1\n", shell_output("seq 1 | #{bin}/prodigy map -- echo {}")
  end
end
