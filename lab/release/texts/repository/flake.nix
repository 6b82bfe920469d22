{
  description = "Run a command, script or AI agent over thousands of items, without losing any";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs = { self, nixpkgs }:
    let
      version = "<% .Version %>";
      archives = {
        x86_64-linux = {
          url = "<% .Base %>/<% .Archives.linux_amd64.Name %>";
          sha256 = "<% .Archives.linux_amd64.Sum %>";
        };
        aarch64-linux = {
          url = "<% .Base %>/<% .Archives.linux_arm64.Name %>";
          sha256 = "<% .Archives.linux_arm64.Sum %>";
        };
        x86_64-darwin = {
          url = "<% .Base %>/<% .Archives.darwin_amd64.Name %>";
          sha256 = "<% .Archives.darwin_amd64.Sum %>";
        };
        aarch64-darwin = {
          url = "<% .Base %>/<% .Archives.darwin_arm64.Name %>";
          sha256 = "<% .Archives.darwin_arm64.Sum %>";
        };
      };
    in
    {
      packages = builtins.mapAttrs
        (system: archive:
          let pkgs = nixpkgs.legacyPackages.${system};
          in {
            default = pkgs.stdenvNoCC.mkDerivation {
              pname = "prodigy";
              inherit version;
              src = pkgs.fetchurl archive;
              nativeBuildInputs = [ pkgs.installShellFiles ];
              installPhase = ''
                runHook preInstall
                install -Dm755 prodigy -t $out/bin
                installManPage man/*.1
                installShellCompletion --cmd prodigy \
                  --bash completions/prodigy.bash --zsh completions/prodigy.zsh --fish completions/prodigy.fish
                runHook postInstall
              '';
              dontStrip = true;
              meta = {
                description = "Run a command, script or AI agent over thousands of items, without losing any";
                homepage = "https://<% .Repo %>";
                license = pkgs.lib.licenses.mit;
                mainProgram = "prodigy";
              };
            };
          })
        archives;
    };
}
