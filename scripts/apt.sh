# What setup.sh and maven.sh share: a line for the reader, and a package from the distribution.

say() { printf 'penstock: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# apt_install PACKAGE...: installs the first of these that the distribution has; fails if it cannot.
apt_install() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" = 0 ]; then sudo=; elif sudo -n -E true 2>/dev/null; then sudo='sudo -n -E'; else return 1; fi
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get -qq update || say "apt-get update failed; trying with the package lists already here"
  for package; do
    if apt-get -qq --simulate install "$package" >/dev/null 2>&1; then
      say "installing $package with apt-get"
      $sudo apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
        "$package" >/dev/null
      return
    fi
  done
  return 1
}
