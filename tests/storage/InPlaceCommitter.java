import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.parquet.hadoop.ParquetOutputCommitter;

/** Tasks write where the table is to be, as with the magic committer of S3A: nothing is renamed at the end. */
public class InPlaceCommitter extends ParquetOutputCommitter {
  private final Path place;

  public InPlaceCommitter(Path place, TaskAttemptContext context) throws IOException {
    super(place, context);
    this.place = place;
  }

  @Override
  public Path getWorkPath() {
    return place;
  }

  @Override
  public void setupJob(JobContext context) {}

  @Override
  public void setupTask(TaskAttemptContext context) {}

  @Override
  public boolean needsTaskCommit(TaskAttemptContext context) {
    return false;
  }

  @Override
  public void abortTask(TaskAttemptContext context) {}

  @Override
  public void commitJob(JobContext context) {}

  @Override
  public void abortJob(JobContext context, JobStatus.State state) {}
}
