"""Which of Spark's processes wrote what the log shows."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.patterns import late

SPARK: Final = "spark"
_LINES_ABOVE: Final = 2
# Loggers of classes that only a driver has: core/src/main/scala/org/apache/spark/scheduler, HeartbeatReceiver.scala
_LOGGERS: Final = (
    r"\b(?:DAGScheduler|TaskSetManager|TaskSchedulerImpl|YarnScheduler|YarnClusterScheduler|HeartbeatReceiver"
    r"|BlockManagerMasterEndpoint|\w{0,30}SchedulerBackend): "
)
# Who catches an error of its own process: common/network-common's exceptionCaught, SparkUncaughtExceptionHandler
_IN_ITSELF: Final = late(
    r"TransportChannelHandler: Exception in connection|TransportRequestHandler: Error (?:sending|while)"
    r"|Exception in thread \"|Uncaught (?:fatal )?(?:error from|exception in) thread"
)
# Threads that only a driver has
_OF_A_DRIVER: Final = late(r"\b(?:broadcast-exchange|task-result-getter|dag-scheduler-event-loop)\b")

# In local mode tasks run in the driver and none is tried again; on a cluster one fails four times: SparkContext.scala,
# MAX_LOCAL_TASK_FAILURES, and docs/configuration.md
_LOCAL: Final = r"TaskSetManager: Task \d{1,9} in stage [\d.]{1,12} failed 1 times; aborting job"
_FAILURES: Final = "spark.task.maxFailures"


def drivers_heap_is_full(crash: Crash) -> bool:
    """Whether the driver's own heap is full: an error that a thread of the process caught, in lines of the driver, or
    one of local mode."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.part != "heap" or SPARK not in crash.job.frameworks:
        return False
    above = (root.at.text, *root.around.before[-_LINES_ABOVE:])
    if any(_OF_A_DRIVER.search(text) for text in above):
        return True
    if crash.mentions(_LOCAL) is not None and crash.setting(_FAILURES) is None:
        return True
    return any(_IN_ITSELF.search(text) for text in above) and crash.mentions(_LOGGERS) is not None


__all__ = ["SPARK", "drivers_heap_is_full"]
