# Defines may_install: whether this process may install packages. What the command itself would refuse is refused here too.
may_install() {
    case ${RECOVERY_NO_ROOT_STEPS:-} in
        1 | yes | true | all | *install*) return 1 ;;
    esac
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}
