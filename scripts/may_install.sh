# Defines may_install: whether this process may install packages. What the command itself would refuse is refused here too.
may_install() {
    case ${RECOVERY_UNPRIVILEGED:-} in
        '' | 0 | no | false | off) ;;
        *) return 1 ;;
    esac
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}
