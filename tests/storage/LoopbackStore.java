import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** Objects of an S3 endpoint on loopback, for tests of Spark's reads and writes. It renames nothing: whoever asks fails. */
public class LoopbackStore extends FileSystem {
  private URI uri;
  private String endpoint;
  private Path workingDirectory = new Path("/");

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setConf(conf);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    endpoint = conf.get("fs.s3a.endpoint");
    if (endpoint == null || conf.get("fs.s3a.secret.key") == null) {
      throw new IOException("no endpoint or no credentials have reached Hadoop");
    }
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public String getScheme() {
    return "s3a";
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    HttpURLConnection get = request("GET", key(path), "");
    if (get.getResponseCode() == 404) {
      throw new FileNotFoundException(path.toString());
    }
    return new FSDataInputStream(new Content(body(get)));
  }

  @Override
  public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
      short replication, long blockSize, Progressable progress) throws IOException {
    OutputStream object = new ByteArrayOutputStream() {
      private boolean closed;

      @Override
      public void close() throws IOException {
        if (!closed) {
          closed = true;
          HttpURLConnection put = request("PUT", key(path), "");
          put.setDoOutput(true);
          put.getOutputStream().write(toByteArray());
          if (put.getResponseCode() != 200) {
            throw new IOException("PUT " + path + ": " + put.getResponseCode());
          }
          body(put);
        }
      }
    };
    return new FSDataOutputStream(object, statistics);
  }

  @Override
  public boolean rename(Path source, Path target) throws IOException {
    throw new IOException("a store cannot rename " + source);
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    List<FileStatus> objects = list(key(path) + "/", false);
    if (exists("HEAD", key(path))) {
      request("DELETE", key(path), "").getResponseCode();
    }
    for (FileStatus object : objects) {
      request("DELETE", key(object.getPath()), "").getResponseCode();
    }
    return true;
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus status = getFileStatus(path);
    if (status.isFile()) {
      return new FileStatus[] {status};
    }
    String prefix = key(path);
    return list(prefix.isEmpty() ? "" : prefix + "/", true).toArray(new FileStatus[0]);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    String key = key(path);
    if (!key.isEmpty()) {
      HttpURLConnection head = request("HEAD", key, "");
      if (head.getResponseCode() == 200) {
        return file(path.makeQualified(uri, workingDirectory), head.getContentLengthLong(), head.getLastModified());
      }
      if (list(key + "/", true).isEmpty() && !exists("HEAD", key + "/")) {
        throw new FileNotFoundException(path.toString());
      }
    }
    return new FileStatus(0, true, 1, 0, 0, path.makeQualified(uri, workingDirectory));
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    return true;
  }

  @Override
  public void setWorkingDirectory(Path path) {
    workingDirectory = path;
  }

  @Override
  public Path getWorkingDirectory() {
    return workingDirectory;
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("objects are not appended to");
  }

  private List<FileStatus> list(String prefix, boolean oneLevel) throws IOException {
    List<FileStatus> found = new ArrayList<>();
    String token = "";
    do {
      String query = "?list-type=2&prefix=" + encoded(prefix) + (oneLevel ? "&delimiter=%2F" : "")
          + (token.isEmpty() ? "" : "&continuation-token=" + encoded(token));
      String answer = new String(body(request("GET", "", query)), StandardCharsets.UTF_8);
      Matcher object = Pattern.compile("<Contents>.*?</Contents>", Pattern.DOTALL).matcher(answer);
      while (object.find()) {
        String key = field(object.group(), "Key");
        if (!key.endsWith("/")) {
          long changed = Instant.parse(field(object.group(), "LastModified")).toEpochMilli();
          found.add(file(place(key), Long.parseLong(field(object.group(), "Size")), changed));
        }
      }
      Matcher folder = Pattern.compile("<CommonPrefixes>.*?</CommonPrefixes>", Pattern.DOTALL).matcher(answer);
      while (folder.find()) {
        String key = field(folder.group(), "Prefix");
        found.add(new FileStatus(0, true, 1, 0, 0, place(key.substring(0, key.length() - 1))));
      }
      token = field(answer, "NextContinuationToken");
    } while (!token.isEmpty());
    return found;
  }

  private boolean exists(String method, String key) throws IOException {
    return request(method, key, "").getResponseCode() == 200;
  }

  private FileStatus file(Path path, long size, long changed) {
    return new FileStatus(size, false, 1, 64L << 20, changed, path);
  }

  private Path place(String key) {
    return new Path(uri.getScheme(), uri.getAuthority(), "/" + key);
  }

  private String key(Path path) {
    return path.makeQualified(uri, workingDirectory).toUri().getPath().substring(1);
  }

  private HttpURLConnection request(String method, String key, String query) throws IOException {
    StringBuilder address = new StringBuilder(endpoint + "/" + uri.getAuthority());
    for (String step : key.isEmpty() ? new String[0] : key.split("/", -1)) {
      address.append("/").append(encoded(step));
    }
    HttpURLConnection request = (HttpURLConnection) URI.create(address + query).toURL().openConnection();
    request.setRequestMethod(method);
    // The server asks for a signature, but does not verify it.
    request.setRequestProperty("Authorization", "AWS4-HMAC-SHA256 Credential=" + getConf().get("fs.s3a.access.key")
        + "/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0");
    return request;
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private static String field(String xml, String name) {
    Matcher matcher = Pattern.compile("<" + name + ">(.*?)</" + name + ">", Pattern.DOTALL).matcher(xml);
    return matcher.find() ? matcher.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") : "";
  }

  private static byte[] body(HttpURLConnection request) throws IOException {
    try (InputStream stream = request.getInputStream()) {
      return stream.readAllBytes();
    }
  }

  /** The content of an object. */
  private static class Content extends FSInputStream {
    private final byte[] bytes;
    private int position;

    Content(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override
    public int read() {
      return position < bytes.length ? bytes[position++] & 0xff : -1;
    }

    @Override
    public int read(byte[] target, int offset, int length) {
      if (position >= bytes.length) {
        return length == 0 ? 0 : -1;
      }
      int count = Math.min(length, bytes.length - position);
      System.arraycopy(bytes, position, target, offset, count);
      position += count;
      return count;
    }

    @Override
    public void seek(long target) {
      position = (int) target;
    }

    @Override
    public long getPos() {
      return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
      return false;
    }
  }
}
