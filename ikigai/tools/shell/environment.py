"""Make the environment of a command: the listed variables of the user, without secrets, and nothing that waits.

The list names the variables that pass, not the removed ones: an unknown variable may hold a key, or change what an
approved program does. CDPATH, RIPGREP_CONFIG_PATH, BASH_ENV, LD_PRELOAD, LD_LIBRARY_PATH, LESSOPEN, GIT_SSH_COMMAND and
their like pass only when `[tools] env` names them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ikigai.core.secrets.secret_variables import is_secret

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_GROUPS = (
    # The user and this machine.
    "PATH HOME USER LOGNAME SHELL HOSTNAME LANG LANGUAGE LOCALE_ARCHIVE TZ PWD TMPDIR TMP TEMP MANPATH",
    "WSL_DISTRO_NAME WSL_INTEROP",
    # The terminal; TERM is fixed below, and so are editors, which would wait for a person.
    "COLUMNS LINES COLORTERM NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE LS_COLORS GREP_COLORS",
    # The desktop. Not DBUS_SESSION_BUS_ADDRESS, over which any program can read an open keyring.
    "DISPLAY WAYLAND_DISPLAY XAUTHORITY",
    # Agents that use a key and do not give it away: git over SSH and signed commits need them.
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO GPG_TTY",
    # Certificates of a company's proxy, without which nothing can be fetched.
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS NIX_SSL_CERT_FILE",
    # Continuous integration, containers and builds that can be repeated.
    "CI GITHUB_ACTIONS GITLAB_CI SOURCE_DATE_EPOCH DOCKER_HOST DOCKER_CONTEXT",
    # Where languages have their tools, packages and caches. Not the options that make each program of a language
    # load or run something else: NODE_OPTIONS, PYTHONSTARTUP, RUBYOPT, PERL5OPT, JAVA_TOOL_OPTIONS, GOFLAGS.
    "VIRTUAL_ENV VIRTUAL_ENV_PROMPT PYTHONPATH PYTHONUTF8 PYTHONIOENCODING PYTHONUNBUFFERED PYTHONHASHSEED",
    "PYTHONDONTWRITEBYTECODE PYENV_ROOT PYENV_VERSION PIP_INDEX_URL PIP_CACHE_DIR PIPX_HOME PIPX_BIN_DIR",
    "UV_INDEX_URL UV_DEFAULT_INDEX UV_CACHE_DIR POETRY_HOME CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE",
    "CONDA_PYTHON_EXE CONDA_SHLVL NODE_ENV NODE_PATH NVM_DIR NVM_BIN VOLTA_HOME FNM_DIR FNM_MULTISHELL_PATH",
    "PNPM_HOME COREPACK_HOME BUN_INSTALL DENO_DIR DENO_INSTALL ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR",
    "GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOOS GOARCH GOPROXY GOPRIVATE GONOSUMDB GOTOOLCHAIN CGO_ENABLED",
    "CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS RUST_BACKTRACE RUST_LOG",
    "JAVA_HOME JDK_HOME MAVEN_HOME M2_HOME GRADLE_HOME GRADLE_USER_HOME SDKMAN_DIR KOTLIN_HOME",
    "ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME DOTNET_ROOT DOTNET_CLI_TELEMETRY_OPTOUT",
    "GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE RBENV_ROOT RBENV_VERSION RAILS_ENV RACK_ENV COMPOSER_HOME",
    "PERL5LIB PERL_LOCAL_LIB_ROOT",
    "MIX_ENV MIX_HOME HEX_HOME OPAM_SWITCH_PREFIX GHCUP_INSTALL_BASE_PREFIX NIX_PATH NIX_PROFILES",
    "CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CMAKE_PREFIX_PATH CUDA_HOME CUDA_VISIBLE_DEVICES HF_HOME",
    "PKG_CONFIG_PATH",  # where libraries are looked for; unlike the other *_CONFIG_PATH it names no configuration
    "HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY",
)
_PASSED = {name for group in (*_GROUPS, *_PROXIES, *map(str.upper, _PROXIES)) for name in group.split()}
"""Names that commands get by default."""
_PASSED_STARTS = ("LC_", "XDG_")
"""Starts of names that commands get by default."""
_LOGIN = re.compile(r"://[^/@\s]*:[^/@\s]+@|(?<!ssh)(?<!sftp)://[^/@\s]+@")
"""In an address a password, or a user, which may be a token (https://TOKEN@host/); of SSH it is a mere name."""
_PARAMETER = re.compile(r"(?:^|[?&;,\s])([A-Za-z][\w-]*)\s*=")
"""The name of a parameter, as in https://host/?token=… and AccountName=…;AccountKey=…"""
_SECRET_PARAMETERS = frozenset({"pwd", "sig", "sharedaccesssignature"})
_EDITORS = (
    "EDITOR VISUAL FCEDIT SUDO_EDITOR SYSTEMD_EDITOR GIT_EDITOR GIT_SEQUENCE_EDITOR HGEDITOR SVN_EDITOR JJ_EDITOR",
    "BZR_EDITOR P4EDITOR CVSEDITOR GH_EDITOR GLAB_EDITOR KUBE_EDITOR PSQL_EDITOR",
)
_ASKING = ("GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS",)
_PAGERS = ("PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER GH_PAGER GLAB_PAGER AWS_PAGER BAT_PAGER DELTA_PAGER PSQL_PAGER",)
_GIT_TOOLS = ("merge.tool", "merge.guitool")
"""Configuration of git that names a program with a window, and has no variable of its own."""
FIXED_VALUES = {
    "TERM": "dumb",
    # The variables go before what a program's own configuration names, as core.editor and core.askPass of git. `false`
    # ends at once, and the program says that its editor failed and, as git does, which option to use instead.
    **dict.fromkeys(" ".join((*_EDITORS, *_ASKING)).split(), "false"),
    **dict.fromkeys(" ".join(_PAGERS).split(), "cat"),
    "GIT_DIFF_TOOL": "false",
    "GIT_CONFIG_COUNT": str(len(_GIT_TOOLS)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(_GIT_TOOLS)},
    **{f"GIT_CONFIG_VALUE_{number}": "false" for number in range(len(_GIT_TOOLS))},
    # Questions at the terminal or in a window, which nobody sees.
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",  # Git Credential Manager
    "SSH_ASKPASS_REQUIRE": "never",
    "GH_PROMPT_DISABLED": "1",
    "NO_PROMPT": "1",  # glab
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "PIP_NO_INPUT": "1",
    "POETRY_NO_INTERACTION": "1",
    "COMPOSER_NO_INTERACTION": "1",
    "TF_INPUT": "0",
}
"""Values that make programs print instead of drawing, paging, asking or opening an editor, unless `[tools] env` names
the variable. None of them answers a question with yes.
"""


def command_environment(
    environment: Mapping[str, str], secret: Collection[str] = (), env: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables of `environment` that a command gets.

    `secret` are further names that hold keys (`api_key_env`). `env` are further names that pass, from `[tools] env`: an
    exact name always passes; `PREFIX*` passes matching names except secrets.
    """
    starts = (*_PASSED_STARTS, *(each.removesuffix("*") for each in env if each.endswith("*")))

    def passes(name: str, value: str) -> bool:
        if name in env:
            return True
        if not (name in _PASSED or name.startswith(starts)):
            return False
        # Without its proxy a machine may reach nothing: the one address that keeps its password.
        return not holds_secret(name, "" if name.lower() in _PROXIES else value, secret)

    return {**FIXED_VALUES, **{name: value for name, value in environment.items() if passes(name, value)}}


def holds_secret(name: str, value: str, secret: Collection[str] = ()) -> bool:
    """Return True for a variable that may hold a key, by its name or its value; `secret` are names that do."""
    return name in secret or is_secret(name) or _has_credentials(value)


def _has_credentials(value: str) -> bool:
    """Return True for an address with a login and for a connection string with a key, as far as can be seen."""
    names = (name.replace("-", "_") for name in _PARAMETER.findall(value))
    return bool(_LOGIN.search(value)) or any(is_secret(name) or name.lower() in _SECRET_PARAMETERS for name in names)
