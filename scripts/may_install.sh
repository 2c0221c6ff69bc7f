# Defines may_install: whether this process may install packages. What the command itself would refuse is refused here too.
may_install() {
    # The second name is the older one, which the command refuses.
    case ${RECOVERY_UNPRIVILEGED:-${RECOVERY_NO_ROOT_STEPS:-}} in
        '' | 0 | no | false | off) ;;
        *) return 1 ;;
    esac
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}
